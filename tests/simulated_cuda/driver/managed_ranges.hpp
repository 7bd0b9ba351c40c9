// What was advised for, and prefetched of, managed memory: a state for each page, kept as pieces of equal
// state. Any range is widened to whole pages, as the real driver does. Used under the machine's lock.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "cuda_api.hpp"

namespace simulated {

struct range_state {
  bool read_mostly = false;
  int preferred = CU_DEVICE_INVALID;   // a device, or CU_DEVICE_CPU
  int prefetched = CU_DEVICE_INVALID;  // the last place it was moved to
  std::set<int> accessed_by;
};

class managed_ranges {
 public:
  static constexpr std::uint64_t page = 4096;

  template <typename Change>
  void change(std::uint64_t begin, std::uint64_t bytes, Change const& apply) {
    std::uint64_t const end = (begin + bytes + page - 1) / page * page;
    begin = begin / page * page;
    split(begin);
    split(end);
    for (auto it = fill(begin, end); it != pieces_.end() && it->first < end; ++it) apply(it->second.state);
  }

  // The state of each piece, with that of pages that nobody spoke of.
  template <typename Visit>
  void each(std::uint64_t begin, std::uint64_t bytes, Visit const& visit) const {
    std::uint64_t at = begin;
    std::uint64_t const end = begin + bytes;
    auto it = pieces_.upper_bound(at);
    if (it != pieces_.begin() && std::prev(it)->second.end > at) --it;
    for (; at < end; ++it) {
      if (it == pieces_.end() || it->first >= end || it->first > at) visit(range_state{});
      if (it == pieces_.end() || it->first >= end) return;
      visit(it->second.state);
      at = it->second.end;
    }
  }

  // Where pieces begin within a range, the first at its own begin.
  std::vector<std::uint64_t> begins(std::uint64_t begin, std::uint64_t bytes) const {
    std::vector<std::uint64_t> found{begin};
    for (auto it = pieces_.upper_bound(begin); it != pieces_.end() && it->first < begin + bytes; ++it)
      found.push_back(it->first);
    std::uint64_t const end = begin + bytes;
    auto const last = pieces_.lower_bound(end);
    if (last != pieces_.begin() && std::prev(last)->second.end < end && std::prev(last)->second.end > begin)
      found.push_back(std::prev(last)->second.end);  // what nobody spoke of
    return found;
  }

  void forget(std::uint64_t begin, std::uint64_t bytes) {
    split(begin);
    split(begin + bytes);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(begin + bytes));
  }

 private:
  struct piece {
    std::uint64_t end = 0;
    range_state state;
  };
  using pieces = std::map<std::uint64_t, piece>;

  void split(std::uint64_t at) {
    auto it = pieces_.upper_bound(at);
    if (it == pieces_.begin() || (--it)->second.end <= at || it->first == at) return;
    pieces_[at] = {it->second.end, it->second.state};
    it->second.end = at;
  }

  // Makes pieces where there are none; the first from `begin` on.
  pieces::iterator fill(std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t at = begin; at < end;) {
      auto const next = pieces_.lower_bound(at);
      if (next != pieces_.end() && next->first == at) {
        at = next->second.end;
        continue;
      }
      std::uint64_t const until = next != pieces_.end() && next->first < end ? next->first : end;
      pieces_[at] = {until, {}};
      at = until;
    }
    return pieces_.lower_bound(begin);
  }

  pieces pieces_;
};

}  // namespace simulated
