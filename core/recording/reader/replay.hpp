// The ledger of each device, brought about by a recording's events. Where events contradict each other (an
// address taken twice, given back without having been taken) it says so and goes on. One thread.
#pragma once

#include <cstdint>
#include <map>

#include "core/recording/live_set.hpp"

namespace gpumem::recording {

struct device_totals {
  std::uint64_t requested = 0;
  std::uint64_t rounding = 0;
  std::uint64_t reserved = 0;
  std::uint64_t observed = 0;
  std::uint64_t highest_requested = 0;

  bool operator==(device_totals const&) const = default;
};

class replay {
 public:
  // What was taken, where the event gives it back.
  live_set::change apply(event const& one);

  std::map<unsigned, device_totals> const& devices() const noexcept { return devices_; }
  live_set const& live() const noexcept { return live_; }
  std::uint64_t contradictions() const noexcept { return contradictions_; }

 private:
  void count(event const& one, bool more);

  live_set live_;
  std::map<unsigned, device_totals> devices_;
  std::uint64_t contradictions_ = 0;
};

}  // namespace gpumem::recording
