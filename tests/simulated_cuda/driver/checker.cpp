// The happens-before checker: bookkeeping of live and dead ranges. Rules in checker.hpp.
// Called under the machine's lock, from any thread.
// A record that the host is ordered after can never be part of a hazard, since every later operation is
// submitted by the host; dropping those keeps both maps small.
#include "checker.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace simulated {
namespace {

constexpr std::size_t texts_kept = 1000;

std::string hex_range(std::uint64_t begin, std::uint64_t end) {
  char text[64];
  std::snprintf(text, sizeof text, "[0x%" PRIx64 ", 0x%" PRIx64 ")", begin, end);
  return text;
}

}  // namespace

void checker::report(std::string text) {
  ++count_;
  if (texts_.size() < texts_kept) texts_.push_back(std::move(text));
}

void checker::clear() {
  count_ = 0;
  texts_.clear();
}

void checker::begins(std::uint64_t address, live made) {
  use& on = uses_[static_cast<std::size_t>(made.device + 1) % uses_.size()];
  on.now += made.bytes;
  on.most = std::max(on.most, on.now);
  freed_.erase(freed_.lower_bound({address, 0}), freed_.upper_bound({address, ~std::uint64_t{0}}));
  live_[address] = std::move(made);
}

std::map<std::uint64_t, checker::live>::iterator checker::ends(std::map<std::uint64_t, live>::iterator at) {
  uses_[static_cast<std::size_t>(at->second.device + 1) % uses_.size()].now -= at->second.bytes;
  return live_.erase(at);
}

void checker::settle(records& of) const {
  std::erase_if(of, [this](record const& r) { return host_.covers(r.slot, r.tick); });
}

void checker::merge(records& into, records const& from) {
  for (record const& r : from) {
    bool known = false;
    for (record& mine : into) {
      if (mine.slot != r.slot) continue;
      if (r.tick > mine.tick) mine = r;
      known = true;
      break;
    }
    if (!known) into.push_back(r);
  }
}

checker::records checker::cut_dead(std::uint64_t begin, std::uint64_t end) {
  records found;
  auto it = dead_.upper_bound(begin);
  if (it != dead_.begin()) {
    auto before = std::prev(it);
    if (before->first + before->second.bytes > begin) it = before;
  }
  while (it != dead_.end() && it->first < end) {
    std::uint64_t const first = it->first;
    dead piece = std::move(it->second);
    std::uint64_t const last = first + piece.bytes;
    it = dead_.erase(it);
    settle(piece.of);
    if (piece.of.empty()) continue;
    merge(found, piece.of);
    if (first < begin) dead_[first] = {begin - first, piece.of};
    if (last > end) it = dead_.insert_or_assign(end, dead{last - end, std::move(piece.of)}).first;
  }
  return found;
}

void checker::allocated(std::uint64_t address, std::uint64_t bytes, unsigned long long stream, int device,
                        void const* owner) {
  if (address == 0 || bytes == 0) return;
  noted_ = true;
  auto next = live_.lower_bound(address);
  auto clash = live_.end();
  if (next != live_.end() && next->first < address + bytes) clash = next;
  if (next != live_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second.bytes > address) clash = before;
  }
  if (clash != live_.end()) {
    report("handed out twice: new allocation " + hex_range(address, address + bytes) + " on stream " +
           std::to_string(stream) + " overlaps live allocation #" + std::to_string(clash->second.id) + " " +
           hex_range(clash->first, clash->first + clash->second.bytes));
    ends(clash);
  }
  begins(address, live{bytes, next_id_++, {}, cut_dead(address, address + bytes), owner, device});
}

void checker::freed(std::uint64_t address, std::uint64_t thread) {
  auto it = live_.find(address);
  if (it == live_.end()) {
    freed_.erase({address, thread});
    return;
  }
  live gone = it->second;
  freed_[{address, thread}] = gone;
  ends(it);
  merge(gone.own, gone.inherited);
  merge(gone.own, cut_dead(address, address + gone.bytes));
  settle(gone.own);
  if (!gone.own.empty()) dead_[address] = {gone.bytes, std::move(gone.own)};
}

void checker::free_refused(std::uint64_t address, std::uint64_t thread) {
  auto const it = freed_.find({address, thread});
  if (it == freed_.end()) return;
  cut_dead(address, address + it->second.bytes);
  begins(address, live(it->second));
}

void checker::check_order(records& of, std::uint64_t allocation, simulated_access const& range,
                          vector_clock const& after, char const* what) {
  std::erase_if(of, [&](record const& r) {
    if (host_.covers(r.slot, r.tick)) return true;
    if (after.covers(r.slot, r.tick)) return false;
    report(std::string("unordered reuse: ") + what + " " + (range.writes != 0 ? "writes " : "reads ") +
           hex_range(range.address, range.address + range.bytes) + " of allocation #" +
           std::to_string(allocation) + ", but work of allocation #" + std::to_string(r.allocation) +
           " on stream slot " + std::to_string(r.slot) + " (operation " + std::to_string(r.tick) +
           ") at the same address is not ordered before it");
    return true;  // said once is enough
  });
}

void checker::anonymous(std::uint64_t begin, std::uint64_t end, record mine, vector_clock const& after,
                        char const* what, bool freed_is_hazard) {
  if (freed_is_hazard && noted_) {
    report(std::string("use after free: ") + what + " touches " + hex_range(begin, end) +
           ", which belongs to no live allocation");
    return;
  }
  records earlier = cut_dead(begin, end);
  check_order(earlier, 0, {begin, end - begin, 1}, after, what);
  merge(earlier, {mine});
  dead_[begin] = {end - begin, std::move(earlier)};
}

void checker::access(simulated_access const& range, std::size_t slot, std::uint64_t tick,
                     vector_clock const& after, char const* what, bool freed_is_hazard) {
  std::uint64_t position = range.address;
  std::uint64_t const end = position + range.bytes;
  auto it = live_.upper_bound(position);
  if (it != live_.begin() && std::prev(it)->first + std::prev(it)->second.bytes > position) --it;
  while (position < end) {
    if (it == live_.end() || it->first >= end) {
      anonymous(position, end, {slot, tick, 0}, after, what, freed_is_hazard);
      return;
    }
    if (it->first > position) anonymous(position, it->first, {slot, tick, 0}, after, what, freed_is_hazard);
    live& block = it->second;
    check_order(block.inherited, block.id, range, after, what);
    merge(block.own, {{slot, tick, block.id}});
    position = it->first + block.bytes;
    ++it;
  }
}

bool checker::unmapped(std::uint64_t address, std::uint64_t bytes) {
  bool over = true;
  for (record const& r : cut_dead(address, address + bytes)) {
    report("unmapped in use: the driver was told to take away " + hex_range(address, address + bytes) +
           " while work on stream slot " + std::to_string(r.slot) + " may still use it");
    over = false;
  }
  for (auto it = live_.lower_bound(address); it != live_.end() && it->first < address + bytes;) {
    report("unmapped in use: the driver was told to take away " + hex_range(address, address + bytes) +
           " beneath live allocation #" + std::to_string(it->second.id));
    it = ends(it);
    over = false;
  }
  return over;
}

void checker::forget(std::uint64_t address, std::uint64_t bytes) {
  cut_dead(address, address + bytes);
  for (auto it = live_.lower_bound(address); it != live_.end() && it->first < address + bytes;) it = ends(it);
}

void checker::forget(void const* owner) {
  for (auto it = live_.begin(); it != live_.end();) it = it->second.owner == owner ? ends(it) : std::next(it);
}

}  // namespace simulated
