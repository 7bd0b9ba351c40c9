// Where the bytes of one device are, as rows that always add up: requested + rounding + pending + cached =
// reserved; reserved + observed - elsewhere + unseen = in use. Unseen is the difference to one answer of
// the driver, with the counters of that same moment. Other threads may be changing the counters: every
// difference is clamped at 0. Pure; used by the report, the live view and their tests.
#pragma once

#include <cstdint>
#include <optional>

#include "core/stats/page/counters.hpp"

namespace gpumem::stats {

struct ledger {
  std::uint64_t requested = 0;          // by the program, not yet given back
  std::uint64_t rounding = 0;           // handed out on top of it
  std::uint64_t pending = 0;            // freed, but work that may use it was not known to be done
  std::uint64_t cached = 0;             // free for reuse
  std::uint64_t reserved = 0;           // from the driver
  std::uint64_t observed = 0;           // by calls that were seen, not routed
  std::uint64_t elsewhere = 0;          // of both, managed memory that lies on the host, as far as is known
  std::optional<std::uint64_t> unseen;  // of contexts, libraries, other processes; unknown: never asked
  std::optional<std::uint64_t> in_use;  // on the device, by anyone
  std::optional<std::uint64_t> free;
};

// As the driver last said, with the counters of that moment.
struct last_asked {
  std::uint64_t unseen = 0;
  std::uint64_t elsewhere = 0;
};
last_asked when_last_asked(device_gauges const& gauges) noexcept;

// Of the counters of all threads, added up, and the gauges; as it was when reserved memory was highest.
ledger ledger_now(device_counters const& counters, device_gauges const& gauges) noexcept;
ledger ledger_at_peak(device_gauges const& gauges) noexcept;

}  // namespace gpumem::stats
