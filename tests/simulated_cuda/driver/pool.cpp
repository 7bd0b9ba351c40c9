// Stream-ordered pools: the part of memory.hpp behind cuMemAllocAsync.
// Called under the machine's lock.
// A free chunk serves the stream it was freed on at once, others when its last use has ended on the clock,
// and, when memory is short, anyone who is made to wait for it on the device. Never anything else.
#include "machine.hpp"
#include "memory.hpp"

namespace simulated {
namespace {

constexpr std::uint64_t step = 512;
constexpr std::uint64_t segment_step = 32u << 20;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

bool memory::grow(pool& from, std::uint64_t bytes) {
  std::uint64_t size = round_up(bytes, segment_step);
  std::uint64_t base = 0;
  auto const allowed = [&] { return from.maximum == 0 || from.reserved + size <= from.maximum; };
  if (allowed()) base = of(from.device).take(size);
  if (base == 0) {
    size = round_up(bytes, driver_block);
    if (allowed()) base = of(from.device).take(size);
  }
  if (base == 0) return false;
  from.segments[base] = size;
  from.chunks[base] = pool::chunk{size, base, true, {}, 0};
  from.by_size.insert({size, base});
  from.reserved += size;
  from.reserved_high = std::max(from.reserved_high, from.reserved);
  return true;
}

std::uint64_t memory::take_chunk(pool& from, std::map<std::uint64_t, pool::chunk>::iterator it,
                                 std::uint64_t bytes) {
  std::uint64_t const address = it->first;
  from.by_size.erase({it->second.bytes, address});
  if (it->second.bytes > bytes) {
    pool::chunk rest = it->second;
    rest.bytes -= bytes;
    from.by_size.insert({rest.bytes, address + bytes});
    from.chunks[address + bytes] = std::move(rest);
    it->second.bytes = bytes;
  }
  it->second.free = false;
  it->second.when = {};
  from.used += bytes;
  return address;
}

std::uint64_t memory::allocate(pool& from, stream& on, std::uint64_t bytes, nanoseconds now) {
  if (bytes > of(from.device).capacity()) return 0;
  std::uint64_t const size = round_up(bytes, step);
  std::uint64_t address = 0;
  for (int attempt = 0; attempt < 3 && address == 0; ++attempt) {
    for (auto entry = from.by_size.lower_bound({size, 0}); entry != from.by_size.end(); ++entry) {
      auto const it = from.chunks.find(entry->second);
      pool::chunk const& found = it->second;
      bool const own = found.stream == on.id;
      bool const done = found.when.end <= now;
      if (!own && !done && attempt < 2) continue;  // 2: memory is short, wait on the device
      on.tail.join(found.when);                    // no wait when done; a device-side wait otherwise
      address = take_chunk(from, it, size);
      break;
    }
    if (address != 0) break;
    if (attempt == 0) coalesce(from, now);
    if (attempt == 1 && grow(from, size)) attempt = 0;  // once more over all, with the new segment
  }
  if (address == 0) return 0;
  from.told_used += bytes;
  from.used_high = std::max(from.used_high, from.told_used);
  block made;
  made.kind = block_kind::pooled;
  made.base = made.segment = address;
  made.bytes = bytes;
  made.span = size;
  made.owner = on.owner;
  made.device = from.device;
  made.from = &from;
  insert(made);
  return address;
}

// Makes one chunk of two neighbours where that loses nothing: same stream, or at most one of them still in
// use.
bool memory::absorb(pool& home, std::map<std::uint64_t, pool::chunk>::iterator left, nanoseconds now) {
  auto const right = std::next(left);
  if (right == home.chunks.end()) return false;
  pool::chunk& a = left->second;
  pool::chunk& b = right->second;
  if (a.segment != b.segment || !a.free || !b.free) return false;
  bool const a_done = a.when.end <= now, b_done = b.when.end <= now;
  if (a.stream != b.stream && !a_done && !b_done) return false;
  home.by_size.erase({a.bytes, left->first});
  home.by_size.erase({b.bytes, right->first});
  if (a.stream != b.stream && a_done) a.stream = b.stream;
  a.bytes += b.bytes;
  a.when.join(b.when);
  home.by_size.insert({a.bytes, left->first});
  home.chunks.erase(right);
  return true;
}

void memory::coalesce(pool& home, nanoseconds now) {
  for (auto it = home.chunks.begin(); it != home.chunks.end();) {
    if (!absorb(home, it, now)) ++it;
  }
}

void memory::release(block const& gone, stream const* on, point when, nanoseconds now) {
  pool& home = *gone.from;
  auto it = home.chunks.find(gone.base);
  if (it == home.chunks.end()) return;
  home.used -= it->second.bytes;
  if (on != nullptr) home.told_used -= gone.bytes;
  it->second.free = true;
  it->second.when = std::move(when);
  it->second.stream = on != nullptr ? on->id : 0;
  home.by_size.insert({it->second.bytes, it->first});
  if (home.destroyed && drop_if_over(home, now, machine::get().host_)) return;
  absorb(home, it, now);
  if (it != home.chunks.begin()) absorb(home, std::prev(it), now);
}

// Cuts `gone` bytes off an idle chunk that begins or ends its segment, and off the segment.
void memory::cut(pool& home, std::map<std::uint64_t, pool::chunk>::iterator idle, std::uint64_t gone) {
  std::uint64_t const base = idle->second.segment;
  std::uint64_t const bytes = home.segments[base] - gone;
  bool const at_front = idle->first == base;
  std::uint64_t const rest = at_front ? base + gone : base;
  pool::chunk left = idle->second;
  std::uint64_t const at = at_front ? rest : idle->first;
  home.by_size.erase({left.bytes, idle->first});
  home.chunks.erase(idle);
  left.bytes -= gone;
  if (left.bytes != 0) {
    home.by_size.insert({left.bytes, at});
    home.chunks[at] = left;
  }
  home.segments.erase(base);
  if (bytes != 0) home.segments[rest] = bytes;
  for (auto it = home.chunks.lower_bound(rest); it != home.chunks.end() && it->first < rest + bytes; ++it)
    it->second.segment = rest;
  home.reserved -= gone;
  of(home.device).give(at_front ? base : rest + bytes, gone);
}

// Goes by whole steps from either end of a segment, and never below `keep`; a smaller segment goes whole.
void memory::trim(pool& home, std::uint64_t keep, nanoseconds now, vector_clock& host) {
  coalesce(home, now);
  auto const bytes_of = [&](pool::chunk const& c) {
    std::uint64_t const spare = home.reserved > keep ? home.reserved - keep : 0;
    std::uint64_t const around = home.segments[c.segment];
    bool const whole = c.bytes == around && around < segment_step && around <= spare;
    return whole ? around : std::min(c.bytes, spare) / segment_step * segment_step;
  };
  auto const segments = home.segments;
  for (auto const& [base, bytes] : segments) {
    auto const last = std::prev(home.chunks.lower_bound(base + bytes));
    auto const first = home.chunks.find(base);
    std::set<std::uint64_t> const ends{last->first, first->first};
    for (std::uint64_t const at : ends) {
      auto const idle = home.chunks.find(at);
      if (!idle->second.free || idle->second.when.end > now || bytes_of(idle->second) == 0) continue;
      host.join(idle->second.when.after);
      cut(home, idle, bytes_of(idle->second));
    }
  }
}

// Its end waits for nothing (measured): what was freed behind work goes with it later.
bool memory::drop_if_over(pool& home, nanoseconds now, vector_clock& host) {
  bool over = home.destroyed && home.used == 0;
  for (auto const& [base, chunk] : home.chunks) over = over && chunk.when.end <= now;
  if (!over) return false;
  for (auto const& [base, chunk] : home.chunks) host.join(chunk.when.after);
  drop(home);
  return true;
}

void memory::drop(pool& home) {
  for (auto const& [base, bytes] : home.segments) of(home.device).give(base, bytes);
  home.segments.clear();
  home.chunks.clear();
  home.by_size.clear();
  pools.erase(&home);
  handle_records<pool>::end(&home);
}

}  // namespace simulated
