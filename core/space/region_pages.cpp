// A region over a source of pages: fills and punches holes of its segments in pieces of whole pages. See
// region.hpp. Slow paths only, each beside a driver call of 50 us or more, so a plain list of holes is fast
// enough. Pieces of one page are not listed: whatever is mapped and in no larger piece is such a page.
#include <algorithm>
#include <iterator>
#include <limits>
#include <new>

#include "core/space/region.hpp"

namespace gpumem::space {

namespace {

constexpr std::uint64_t up(std::uint64_t units, std::uint32_t page) noexcept {
  return (units + page - 1) / page * page;
}

// Where a request of `units` lies best in a hole with idle neighbours: which pages it cannot do without, and
// how much of them, and of the neighbour, it leaves over.
struct fit {
  std::uint64_t needed = 0;
  std::uint64_t left_over = std::numeric_limits<std::uint64_t>::max();
  bool from_left = true;
};
fit fit_in(std::uint64_t left, std::uint64_t hole, std::uint64_t right, std::uint32_t units,
           std::uint32_t page) noexcept {
  if (left + hole + right < units) return {};
  std::uint64_t const behind_left = std::min(hole, up(units > left ? units - left : 1, page));
  std::uint64_t const before_right = std::min(hole, up(units > right ? units - right : 1, page));
  if (behind_left == hole && before_right == hole) return {hole, left + hole + right - units, true};
  auto const over = [&](std::uint64_t pages, std::uint64_t side) {
    return (pages == hole ? left + hole + right : side + pages) - units;
  };
  bool const from_left = right == 0 || over(behind_left, left) <= over(before_right, right);
  return {from_left ? behind_left : before_right,
          from_left ? over(behind_left, left) : over(before_right, right), from_left};
}

}  // namespace

region::span_of_pieces region::piece_around(std::uint64_t address) const noexcept {
  auto const next = pieces_.lower_bound(address);
  if (next == pieces_.begin()) return {};
  auto const [begin, bytes] = *std::prev(next);
  return begin + bytes > address ? span_of_pieces{begin, begin + bytes} : span_of_pieces{};
}

// Whole pieces inside a block.
region::span_of_pieces region::whole_in(handle h, std::uint32_t page) const noexcept {
  block const& b = registry_.blocks[h];
  std::uint64_t first = up(b.begin() / unit, page) * unit;
  std::uint64_t last = b.end() / unit / page * page * unit;
  if (auto const at_first = piece_around(first); at_first.end != 0) first = at_first.end;
  if (auto const at_last = piece_around(last); at_last.end != 0) last = at_last.begin;
  return first < last ? span_of_pieces{first, last} : span_of_pieces{};
}

// Whether taking this part of an idle block leaves a piece, all of which was idle, in part in use.
bool region::would_split(handle h, std::uint32_t front, std::uint32_t units,
                         std::uint32_t left_over) const noexcept {
  if (pieces_.empty()) return false;
  block const& b = registry_.blocks[h];
  std::uint64_t const begin = b.begin() + front * unit, end = begin + units * unit;
  auto const was_idle = [&](span_of_pieces const& piece) {
    return piece.end != 0 && piece.begin >= b.begin() && piece.end <= b.end();
  };
  auto const last = piece_around(end);
  return was_idle(piece_around(begin)) || (was_idle(last) && last.end - end > left_over * unit);
}

void region::forget_pieces(std::uint64_t begin, std::uint64_t end) noexcept {
  pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
}

bool region::add_range(std::uint64_t base, std::uint64_t bytes, std::uint64_t token) noexcept {
  handle const h = make_segment(base, bytes, token, true);
  if (h == none) return false;
  add_hole(h);
  return true;
}

void region::add_hole(handle h) noexcept {
  auto& table = blocks();
  auto const is_hole = [&](handle n) {
    return n != none && table[n].now.load(std::memory_order_relaxed) == state::hole;
  };
  if (handle const right = table[h].after; is_hole(right)) {
    drop_hole(right);
    h = absorb(h, right);
  }
  if (handle const left = table[h].before; is_hole(left)) {
    absorb(left, h);
    return;
  }
  table[h].now.store(state::hole, std::memory_order_relaxed);
  table[h].previous = none;
  table[h].next = holes_;
  if (holes_ != none) table[holes_].previous = h;
  holes_ = h;
}

void region::drop_hole(handle h) noexcept {
  block& b = blocks()[h];
  b.now.store(state::unused, std::memory_order_relaxed);
  (b.previous != none ? blocks()[b.previous].next : holes_) = b.next;
  if (b.next != none) blocks()[b.next].previous = b.previous;
}

// The place that leaves least over: remainders below a page are all that a full pool cannot use.
region::opening region::open(std::uint32_t units, std::uint32_t page, std::uint32_t wished,
                             bool whole) noexcept {
  auto& table = blocks();
  auto const idle_at = [&](handle n) -> std::uint64_t {
    bool const serves =
        n != none && table[n].now.load(std::memory_order_relaxed) == state::idle && table[n].where == done;
    return serves ? table[n].units : 0;
  };
  handle best = none;
  fit place;
  for (handle h = holes_; h != none; h = table[h].next) {
    std::uint64_t const behind = whole ? 0 : idle_at(table[h].after);
    fit const here = fit_in(idle_at(table[h].before), table[h].units, behind, units, page);
    if (here.needed == 0 || here.left_over > place.left_over) continue;
    if (here.left_over == place.left_over && table[h].units >= table[best].units) continue;
    best = h;
    place = here;
  }
  if (best == none) return {};
  std::uint64_t const hole = table[best].units;
  opening o{.needed = static_cast<std::uint32_t>(place.needed)};
  bool const from_left = place.from_left || place.needed == hole;
  std::uint64_t const taken =
      from_left ? std::min(hole, std::max(place.needed, up(wished, page))) : place.needed;
  drop_hole(best);
  handle body = best;
  if (!from_left) {
    body = split(best, static_cast<std::uint32_t>(hole - taken));
    add_hole(best);
  } else if (taken < hole) {
    handle const rest = split(best, static_cast<std::uint32_t>(taken));
    if (rest != none) {
      add_hole(rest);
    } else {
      add_hole(best);
      body = none;
    }
  }
  if (body == none) return {};
  auto const hold = [&](handle n) {
    detach(n);
    show(n, true);
    return n;
  };
  show(body, true);
  o.middle = body;
  if (idle_at(table[body].before) > 0) o.left = hold(table[body].before);
  if (idle_at(table[body].after) > 0) o.right = hold(table[body].after);
  if (whole && o.left != none && o.needed == units) o.front = table[o.left].units;
  // The last page is shared with what comes behind the request, unless that begins at a page.
  std::uint64_t const end = table[o.left != none ? o.left : body].begin() / unit + o.front + units;
  o.own = o.needed;
  if (end % page != 0 && end < table[body].begin() / unit + o.needed) o.own -= page;
  return o;
}

bool region::lay(std::uint64_t address, std::uint32_t page, std::span<std::uint64_t const> pieces) noexcept
    try {
  for (std::uint64_t const bytes : pieces) {
    forget_pieces(address, address + bytes);
    if (bytes > page * unit) pieces_.emplace(address, bytes);
    address += bytes;
  }
  return true;
} catch (std::bad_alloc const&) {
  return false;
}

bool region::shorten(opening const& o, std::uint32_t units) noexcept {
  if (blocks()[o.middle].units <= units) return true;
  handle const rest = split(o.middle, units);
  if (rest == none) return false;
  forget_pieces(blocks()[rest].begin(), blocks()[rest].end());
  add_hole(rest);
  return true;
}

handle region::fill(opening const& o) noexcept {
  reserved_bytes_ += blocks()[o.middle].bytes();
  if (o.left != none) put(o.left, done);
  if (o.right != none) put(o.right, done);
  return put(o.middle, done);
}

void region::close(opening const& o) noexcept {
  forget_pieces(blocks()[o.middle].begin(), blocks()[o.middle].end());
  if (o.left != none) put(o.left, done);
  if (o.right != none) put(o.right, done);
  add_hole(o.middle);
}

handle region::take_pages(std::uint32_t page, std::uint32_t wanted) noexcept {
  if (wanted == 0) return none;
  handle best = none;
  std::uint64_t size = 0;
  auto const enough = [&](std::uint64_t bytes) { return bytes >= wanted * unit; };
  done_.find_if(blocks(), page, [&](handle h) {
    auto const whole = whole_in(h, page);
    std::uint64_t const bytes = whole.end - whole.begin;
    if (bytes > 0 && (enough(bytes) ? !enough(size) || bytes < size : bytes > size)) {
      best = h;
      size = bytes;
    }
    return false;
  });
  if (best == none) return none;
  auto [begin, end] = whole_in(best, page);
  // At the end, where growth goes on, unless the hole before it can become a larger one.
  handle const before = blocks()[best].before;
  bool const joins = begin == blocks()[best].begin() && before != none &&
                     blocks()[before].now.load(std::memory_order_relaxed) == state::hole;
  if (enough(size) && joins) {
    end = begin + up(wanted, page) * unit;
    if (auto const around = piece_around(end); around.end != 0) end = around.end;
  } else if (enough(size)) {
    begin = end - up(wanted, page) * unit;
    if (auto const around = piece_around(begin); around.end != 0) begin = around.begin;
  }
  auto const units = [](std::uint64_t bytes) { return static_cast<std::uint32_t>(bytes / unit); };
  handle const body = carve(best, units(begin - blocks()[best].begin()), units(end - begin));
  if (body != none) show(body, true);
  return body;
}

void region::punch(handle h) noexcept {
  block const& b = blocks()[h];
  reserved_bytes_ -= b.bytes();
  forget_pieces(b.begin(), b.end());
  add_hole(h);
}

std::uint64_t region::whole_pages(std::uint32_t page, std::uint64_t enough) noexcept {
  std::uint64_t found = 0;
  done_.find_if(blocks(), page, [&](handle h) {
    auto const whole = whole_in(h, page);
    found += whole.end - whole.begin;
    return found >= enough;
  });
  return found;
}

}  // namespace gpumem::space
