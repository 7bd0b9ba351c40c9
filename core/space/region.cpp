// See region.hpp.
#include "core/space/region.hpp"

#include <algorithm>
#include <new>

namespace gpumem::space {

namespace {

std::uint32_t gap_before(std::uint64_t address, std::uint64_t alignment) noexcept {
  return static_cast<std::uint32_t>(((address + alignment - 1) / alignment * alignment - address) / unit);
}

}  // namespace

// The segment as one block in no index.
handle region::make_segment(std::uint64_t base, std::uint64_t bytes, std::uint64_t token,
                            bool contextless) noexcept try {
  segments_.reserve(segments_.size() + 1);
  if (index(done, true) == nullptr || index(pending, true) == nullptr) return none;
  std::uint64_t const units = bytes / unit;
  if (units == 0 || units > ~std::uint32_t{0}) return none;
  handle const h = blocks().acquire();
  if (h == none) return none;
  segment* s = registry_.segments.add(base, bytes, owner_, contextless);
  if (s == nullptr) {
    blocks().release(h);
    return none;
  }
  s->token = token;
  s->first = h;
  block& b = blocks()[h];
  b.address.store(base, std::memory_order_relaxed);
  b.units = static_cast<std::uint32_t>(units);
  b.segment = s->index;
  s->position = segments_.size();
  segments_.push_back(s);
  admitting_bytes_ += bytes;
  return h;
} catch (std::bad_alloc const&) {
  return none;
}

bool region::add_segment(std::uint64_t base, std::uint64_t bytes, std::uint64_t token,
                         bool contextless) noexcept {
  handle const h = make_segment(base, bytes, token, contextless);
  if (h == none) return false;
  reserved_bytes_ += bytes;
  attach(h, done);
  return true;
}

handle region::take(free_list_id from, std::uint32_t units, bool thorough, bool hidden,
                    std::uint64_t alignment) noexcept {
  handle const h = find(from, units, thorough, alignment);
  return h != none ? take_from(h, 0, units, hidden, alignment) : none;
}

handle region::take_tighter(free_list_id first, std::uint32_t units, bool thorough, bool hidden,
                            std::uint64_t alignment) noexcept {
  handle h = find(first, units, thorough, alignment);
  if (h == none || blocks()[h].units != units) {
    handle const other = find(done, units, thorough, alignment);
    if (h == none || (other != none && blocks()[other].units < blocks()[h].units)) h = other;
  }
  return h != none ? take_from(h, 0, units, hidden, alignment) : none;
}

inline handle region::find(free_list_id in, std::uint32_t units, bool thorough,
                           std::uint64_t alignment) noexcept {
  free_index* const idle = index(in, false);
  if (idle == nullptr) return none;
  return alignment <= unit ? idle->find(blocks(), units, thorough)
                           : find_aligned(*idle, units, thorough, alignment);
}

handle region::take_from(handle idle, std::uint32_t front, std::uint32_t units, bool hidden,
                         std::uint64_t alignment) noexcept {
  free_list_id const from = blocks()[idle].where;
  if (alignment > unit) front += gap_before(blocks()[idle].begin() + front * unit, alignment);
  handle const h = carve(idle, front, units);
  if (h == none || show(h, hidden)) return h;
  put(h, from);
  return none;
}

handle region::take_whole(std::uint32_t units, std::uint32_t page, std::uint32_t left_over, bool hidden,
                          std::uint64_t alignment, bool& would_split_piece) noexcept {
  would_split_piece = false;
  handle const h =
      alignment <= unit ? done_.find(blocks(), units, false) : find_aligned(done_, units, false, alignment);
  if (h == none) return none;
  block const& b = blocks()[h];
  if (units % page == 0) {
    std::uint32_t const front = gap_before(b.begin(), std::max(alignment, page * unit));
    if (std::uint64_t{front} + units <= b.units && !would_split(h, front, units, left_over))
      return take_from(h, front, units, hidden, alignment);
  }
  would_split_piece =
      would_split(h, alignment <= unit ? 0 : gap_before(b.begin(), alignment), units, left_over);
  return would_split_piece ? none : take_from(h, 0, units, hidden, alignment);
}

handle region::take_in_proportion(std::uint32_t units, bool hidden, std::uint64_t alignment) noexcept {
  constexpr std::uint64_t any_up_to = 2ull << 20, any_from = 64ull << 20;
  int looks = 256;
  auto const fits = [&](handle h) {
    block const& b = blocks()[h];
    if (alignment > unit && std::uint64_t{units} + gap_before(b.begin(), alignment) > b.units) return false;
    std::uint64_t const bytes = registry_.segments[b.segment].bytes;
    if (bytes <= any_up_to || bytes > any_from) return true;
    return is_whole_segment(b) ? 4 * units * unit >= 3 * bytes : 16 * units * unit >= bytes;
  };
  handle const h = done_.find_near(blocks(), units, looks, fits);
  return h != none ? take_from(h, 0, units, hidden, alignment) : none;
}

handle region::take_by_itself(free_list_id from, std::uint32_t units, std::uint32_t left_over,
                              std::uint64_t of_small, bool hidden, std::uint64_t alignment) noexcept {
  constexpr std::uint64_t page = 2ull << 20;
  free_index* const idle = index(from, false);
  if (idle == nullptr) return none;
  std::uint64_t const wanted = units * unit, any_up_to = wanted < page ? of_small : page;
  int looks = 256;
  auto const fits = [&](handle h) {
    block const& b = blocks()[h];
    if (alignment > unit && std::uint64_t{units} + gap_before(b.begin(), alignment) > b.units) return false;
    std::uint64_t const bytes = registry_.segments[b.segment].bytes;
    if (bytes <= any_up_to) return true;
    return is_whole_segment(b) ? b.units - units <= left_over : 16 * wanted >= bytes;
  };
  handle const h = idle->find_near(blocks(), units, looks, fits);
  return h != none ? take_from(h, 0, units, hidden, alignment) : none;
}

void region::admit_from(segment& s, std::uint32_t units) noexcept {
  if (s.least == 0) admitting_bytes_ -= s.bytes;
  s.least = units;
}

handle region::take_admitted(std::uint32_t units, bool hidden, std::uint64_t alignment,
                             bool& overlooked) noexcept {
  constexpr int most_looks = 32;
  int looks = most_looks;
  auto const fits = [&](handle h) {
    block const& b = blocks()[h];
    if (alignment > unit && std::uint64_t{units} + gap_before(b.begin(), alignment) > b.units) return false;
    return units >= registry_.segments[b.segment].least;
  };
  handle const h = done_.find_near(blocks(), units, looks, fits);
  overlooked = h == none && looks <= 0;
  return h != none ? take_from(h, 0, units, hidden, alignment) : none;
}

handle region::find_aligned(free_index const& idle, std::uint32_t units, bool thorough,
                            std::uint64_t alignment) noexcept {
  auto const holds = [&](handle h) {
    return std::uint64_t{units} + gap_before(blocks()[h].begin(), alignment) <= blocks()[h].units;
  };
  if (handle const h = idle.find(blocks(), units, thorough); h != none && holds(h)) return h;
  std::uint64_t const surely = units + alignment / unit - 1;
  if (surely > ~std::uint32_t{0}) return none;
  handle const h = idle.find(blocks(), static_cast<std::uint32_t>(surely), thorough);
  return h != none || !thorough ? h : idle.find_if(blocks(), units, holds);
}

handle region::take_handle() noexcept {
  if (spare_ == none) [[unlikely]]
    return blocks().acquire();
  handle const h = spare_;
  spare_ = blocks()[h].next;
  --spare_count_;
  blocks()[h].marked.store(0, std::memory_order_relaxed);
  return h;
}

void region::give_handle(handle h) noexcept {
  constexpr std::uint32_t most_spare = 256;
  if (spare_count_ == most_spare) [[unlikely]]
    return blocks().release(h);
  block& b = blocks()[h];
  b.now.store(state::unused, std::memory_order_relaxed);
  b.next = spare_;
  spare_ = h;
  ++spare_count_;
}

handle region::split(handle h, std::uint32_t units) noexcept {
  handle const rest = take_handle();
  if (rest == none) return none;
  block& b = blocks()[h];
  block& r = blocks()[rest];
  r.address.store(b.begin() + units * unit, std::memory_order_relaxed);
  r.units = b.units - units;
  r.segment = b.segment;
  r.freed = b.freed;
  r.before = h;
  r.after = b.after;
  if (b.after != none) blocks()[b.after].before = rest;
  b.after = rest;
  b.units = units;
  mark_start(r, true);
  return rest;
}

void region::note_start(block const& b, bool is_one) noexcept {
  start_map& starts = registry_.segments[b.segment].starts;
  if (starts.empty()) return;
  std::uint64_t const at = (b.begin() - registry_.segments[b.segment].base) / unit;
  is_one ? starts.set(at) : starts.clear(at);
}

// Programs that never ask pay nothing for the map: its pages, each for 16 MiB of a segment, cost 2 us when
// first touched, as much as two requests.
bool region::map_starts(segment const& in) noexcept {
  start_map& starts = registry_.segments[in.index].starts;
  if (!starts.empty()) return true;
  if (!starts.reset(in.bytes / unit)) return false;
  ++start_maps_;
  for (handle h = in.first; h != none; h = blocks()[h].after) mark_start(blocks()[h], true);
  return true;
}

handle region::block_at(segment const& in, std::uint64_t address) noexcept {
  std::uint64_t const at = in.starts.last_up_to((address - in.base) / unit);
  return at == start_map::nothing ? none : registry_.map.find(in.base + at * unit);
}

handle region::carve(handle h, std::uint32_t front, std::uint32_t units) noexcept {
  free_list_id const from = blocks()[h].where;
  detach(h);
  if (front > 0) {
    handle const body = split(h, front);
    attach(h, from);
    if (body == none) return none;
    h = body;
  }
  if (blocks()[h].units > units) {
    handle const rest = split(h, units);
    if (rest == none) {
      put(h, from);
      return none;
    }
    attach(rest, from);
  }
  blocks()[h].where = from;
  return h;
}

// The map knows exactly the blocks that the program may hold.
bool region::show(handle h, bool hidden) noexcept {
  block& b = blocks()[h];
  if (hidden == b.is(mapped)) {
    if (hidden) {
      registry_.map.erase(h);
      b.marked.store(0, std::memory_order_relaxed);
    } else if (!registry_.map.insert(h)) {
      return false;
    } else {
      b.marked.store(mapped, std::memory_order_relaxed);
    }
  }
  b.rounding = 0;
  b.now.store(state::live, std::memory_order_release);
  return true;
}

handle region::take_unfinished(free_list_id except, std::uint32_t units) noexcept {
  for (free_list_id d = pending; d < indices_.size(); ++d) {
    if (d == except || d == withheld) continue;
    if (handle const h = take(d, units); h != none) return h;
  }
  return none;
}

handle region::put(handle h, free_list_id to) noexcept {
  if (to != done && index(to, true) == nullptr)
    to = pending;  // no memory for a stream's own index: everyone waits instead
  auto& table = blocks();
  auto const joins = [&](handle n) {
    return n != none && table[n].now.load(std::memory_order_relaxed) == state::idle && table[n].where == to;
  };
  // A merged block is as young as its youngest part; epochs wrap, so they compare by difference.
  epoch_id freed = table[h].freed;
  auto const younger = [&](handle n) {
    if (static_cast<std::int32_t>(table[n].freed - freed) > 0) freed = table[n].freed;
  };
  if (handle const right = table[h].after; joins(right)) {
    younger(right);
    detach(right);
    h = absorb(h, right);
  }
  if (handle const left = table[h].before; joins(left)) {
    younger(left);
    detach(left);
    h = absorb(left, h);
  }
  table[h].freed = freed;
  attach(h, to);
  return h;
}

handle region::absorb(handle left, handle right) noexcept {
  block& l = blocks()[left];
  block& r = blocks()[right];
  l.units += r.units;
  l.after = r.after;
  if (r.after != none) blocks()[r.after].before = left;
  mark_start(r, false);
  if (r.is(mapped)) registry_.map.erase(right);
  give_handle(right);
  return left;
}

void region::attach(handle h, free_list_id to) noexcept {
  block& b = blocks()[h];
  b.where = to;
  b.now.store(state::idle, std::memory_order_relaxed);
  b.later = b.earlier = none;
  (to == done ? done_ : *indices_[to]).insert(blocks(), h);
  if (to == withheld) [[unlikely]] {
    withheld_bytes_ += b.bytes();
    return;
  }
  idle_bytes_ += b.bytes();
  if (to == done) {
    if (is_empty_segment(b)) ++empty_segments_;
    return;
  }
  pending_bytes_ += b.bytes();
  b.earlier = newest_;
  if (newest_ != none) blocks()[newest_].later = h;
  newest_ = h;
  if (oldest_ == none) oldest_ = h;
}

void region::detach(handle h) noexcept {
  block& b = blocks()[h];
  (b.where == done ? done_ : *indices_[b.where]).erase(blocks(), h);
  if (b.where == withheld) [[unlikely]] {
    withheld_bytes_ -= b.bytes();
    return;
  }
  idle_bytes_ -= b.bytes();
  if (b.where == done) {
    if (is_empty_segment(b)) --empty_segments_;
    return;
  }
  pending_bytes_ -= b.bytes();
  if (b.earlier != none)
    blocks()[b.earlier].later = b.later;
  else
    oldest_ = b.later;
  (b.later != none ? blocks()[b.later].earlier : newest_) = b.earlier;
  b.later = b.earlier = none;
}

void region::orphan(free_list_id from, free_list_id to) noexcept {
  free_index* idle = index(from, false);
  if (idle == nullptr) return;
  while (!idle->empty()) {
    handle const h = idle->any();
    detach(h);
    put(h, to);
  }
  indices_[from].reset();
}

free_index* region::index(free_list_id d, bool make) noexcept {
  if (d == done) return &done_;
  if (d < indices_.size() && indices_[d] != nullptr) return indices_[d].get();
  if (!make) return nullptr;
  try {
    if (d >= indices_.size()) indices_.resize(d + 1u);
    indices_[d] = std::make_unique<free_index>();
  } catch (std::bad_alloc const&) {
    return nullptr;
  }
  return indices_[d].get();
}

std::uint64_t region::largest_idle() noexcept {
  std::uint32_t units = done_.largest(blocks());
  for (free_list_id d = pending; d < indices_.size(); ++d) {
    if (d != withheld && indices_[d] != nullptr) units = std::max(units, indices_[d]->largest(blocks()));
  }
  return units * unit;
}

bool region::count_idle(count_place& at, stats::free_blocks& to) noexcept {
  free_index const* const idle = at.list == withheld ? nullptr : index(at.list, false);
  at.row = idle == nullptr ? -1 : idle->count(blocks(), at.row, to);
  if (at.row >= 0) return true;
  at.row = 0;
  return ++at.list < std::max<std::size_t>(indices_.size(), pending);
}

segment* region::empty_segment(int keep) noexcept {
  return empty_segment_if([&keep](segment const&, epoch_id) { return keep-- <= 0; });
}

segment* region::left_segment() noexcept {
  if (withheld_bytes_ == 0) return nullptr;
  for (segment* s : segments_) {
    if (!std::atomic_ref<bool>(s->pinned).load(std::memory_order_relaxed)) continue;
    bool free = true;
    for (handle h = s->first; free && h != none; h = blocks()[h].after)
      free = blocks()[h].now.load(std::memory_order_relaxed) == state::idle;
    if (free) return s;
  }
  return nullptr;
}

void region::remove_segment(segment* s) noexcept {
  for (handle h = s->first; h != none;) {
    handle const after = blocks()[h].after;
    state const now = blocks()[h].now.load(std::memory_order_relaxed);
    if (now == state::idle) detach(h);
    if (now == state::hole) {
      drop_hole(h);
    } else {
      reserved_bytes_ -= blocks()[h].bytes();
    }
    if (blocks()[h].is(mapped)) registry_.map.erase(h);
    blocks().release(h);
    h = after;
  }
  if (s->least == 0) admitting_bytes_ -= s->bytes;
  forget_pieces(s->base, s->base + s->bytes);
  segments_[s->position] = segments_.back();
  segments_[s->position]->position = s->position;
  segments_.pop_back();
  if (!s->starts.empty()) --start_maps_;
  s->starts = {};
  registry_.segments.remove(s);
  while (segments_.empty() && spare_ != none) blocks().release(take_handle());  // its context may be gone
}

}  // namespace gpumem::space
