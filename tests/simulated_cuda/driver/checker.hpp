// The happens-before checker: finds two accesses to one address, by different allocations, that nothing
// orders. Called by the machine for each access of an operation when it is submitted, and by the notes of a
// test or of the stand-in runtime; always under the machine's lock. An allocator hands out blocks as wholes,
// so order is kept per allocation, not per byte: whoever gets any part of a freed block must come after all
// its work.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "clock.hpp"
#include "cuda_api.hpp"
#include "simulated.h"

namespace simulated {

class checker {
 public:
  explicit checker(vector_clock const& host) : host_(host) {}

  // `owner`: the context that it goes with, where its memory does not; may be null. `device`: whose memory it
  // is; -1: the host's.
  void allocated(std::uint64_t address, std::uint64_t bytes, unsigned long long stream, int device,
                 void const* owner = nullptr);
  void freed(std::uint64_t address, std::uint64_t thread);
  // The free that `thread` noted of it was refused: the allocation lives on.
  void free_refused(std::uint64_t address, std::uint64_t thread);

  // One access by the operation (slot, tick) that comes after `after`. `freed_is_hazard`: a declared kernel
  // on memory that the driver hands out; it has no business in what the program gave back.
  void access(simulated_access const& range, std::size_t slot, std::uint64_t tick, vector_clock const& after,
              char const* what, bool freed_is_hazard);
  // The driver takes the memory away; work still using it is a hazard.
  bool unmapped(std::uint64_t address, std::uint64_t bytes);  // false: work may still use it
  // A context is gone with all its memory.
  void forget(std::uint64_t address, std::uint64_t bytes);
  // Those of them that `goes` says: by address and bytes.
  template <typename Predicate>
  void forget(std::uint64_t address, std::uint64_t bytes, Predicate goes) {
    for (auto it = live_.lower_bound(address); it != live_.end() && it->first < address + bytes;)
      it = goes(it->first, it->second.bytes) ? ends(it) : std::next(it);
  }
  void forget(void const* owner);

  // Bytes of live allocations on a device, and the highest value of that.
  struct use {
    std::uint64_t now = 0, most = 0;
  };
  use const& use_of(int device) const noexcept {
    return uses_[static_cast<std::size_t>(device + 1) % uses_.size()];
  }

  void report(std::string text);
  unsigned long long count() const noexcept { return count_; }
  std::deque<std::string> const& texts() const noexcept { return texts_; }
  void clear();

 private:
  struct record {  // the latest access by one stream
    std::size_t slot = 0;
    std::uint64_t tick = 0;
    std::uint64_t allocation = 0;
  };
  using records = std::vector<record>;
  struct live {
    std::uint64_t bytes = 0;
    std::uint64_t id = 0;
    records own;
    records inherited;  // of earlier allocations in this range, not yet ordered
    void const* owner = nullptr;
    int device = 0;
  };
  struct dead {
    std::uint64_t bytes = 0;
    records of;
  };

  void begins(std::uint64_t address, live made);
  std::map<std::uint64_t, live>::iterator ends(std::map<std::uint64_t, live>::iterator at);
  void settle(records& of) const;  // drops what the host is ordered after
  static void merge(records& into, records const& from);
  void check_order(records& of, std::uint64_t allocation, simulated_access const& range,
                   vector_clock const& after, char const* what);
  void anonymous(std::uint64_t begin, std::uint64_t end, record mine, vector_clock const& after,
                 char const* what, bool freed_is_hazard);
  // Removes dead ranges in [begin, end), keeping the parts outside; returns their records.
  records cut_dead(std::uint64_t begin, std::uint64_t end);

  vector_clock const& host_;
  std::map<std::uint64_t, live> live_;
  std::array<use, 65> uses_{};  // by device, the host's first
  std::map<std::uint64_t, dead> dead_;
  // By address and thread, until it is allocated again: a host function may free others inside of the call
  // that is refused.
  std::map<std::pair<std::uint64_t, std::uint64_t>, live> freed_;
  std::uint64_t next_id_ = 1;
  unsigned long long count_ = 0;
  std::deque<std::string> texts_;
  bool noted_ = false;
};

}  // namespace simulated
