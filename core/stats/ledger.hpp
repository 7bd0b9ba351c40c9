// Where the bytes of one device are, as rows that always add up:
// requested + rounding + pending + cached = reserved; reserved + observed + unseen = in use.
// Derived from counters that other threads may be changing: every difference is clamped, never negative.
// Pure; used by the report, the live view and their tests.
#pragma once

#include <cstdint>
#include <optional>

#include "core/stats/counters.hpp"

namespace gpumem::stats {

struct ledger {
  std::uint64_t requested = 0;          // by the program, not yet given back
  std::uint64_t rounding = 0;           // handed out on top of it
  std::uint64_t pending = 0;            // freed, but work that may use it was not known to be done
  std::uint64_t cached = 0;             // free for reuse
  std::uint64_t reserved = 0;           // from the driver
  std::uint64_t observed = 0;           // by calls that were seen, not routed
  std::optional<std::uint64_t> unseen;  // of contexts, libraries, other processes; unknown: never asked
  std::optional<std::uint64_t> in_use;  // on the device, by anyone
  std::optional<std::uint64_t> free;
};

ledger ledger_now(device_counters const& counters, device_gauges const& gauges) noexcept;
ledger ledger_at_peak(device_gauges const& gauges) noexcept;

}  // namespace gpumem::stats
