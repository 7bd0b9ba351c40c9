// See ledger.hpp.
#include "core/stats/ledger.hpp"

#include <algorithm>

namespace gpumem::stats {
namespace {

std::uint64_t difference(std::uint64_t more, std::uint64_t less) noexcept {
  return more > less ? more - less : 0;
}

struct amounts {
  std::uint64_t requested, handed, pending, reserved, observed, used, total;
};

ledger derive(amounts const& from) noexcept {
  ledger rows;
  rows.requested = from.requested;
  std::uint64_t const handed = std::max(from.handed, from.requested);
  rows.rounding = handed - from.requested;
  // A block counted before the segment it came from: the reserved bytes are at least what was handed out.
  rows.reserved = std::max(from.reserved, handed);
  rows.pending = std::min(from.pending, rows.reserved - handed);
  rows.cached = rows.reserved - handed - rows.pending;
  rows.observed = from.observed;
  if (from.used == 0) return rows;
  // `used` is the last answer of the driver and may be older than what was reserved since.
  std::uint64_t const known = rows.reserved + rows.observed;
  rows.in_use = std::max(from.used, known);
  rows.unseen = *rows.in_use - known;
  if (from.total != 0) rows.free = difference(from.total, *rows.in_use);
  return rows;
}

}  // namespace

ledger ledger_now(device_counters const& counters, device_gauges const& gauges) noexcept {
  return derive({difference(counters.allocated_requested, counters.freed_requested),
                 difference(counters.allocated_handed, counters.freed_handed), gauges.pending,
                 gauges.reserved, gauges.observed, gauges.used, gauges.total});
}

ledger ledger_at_peak(device_gauges const& gauges) noexcept {
  return derive({gauges.peak_requested, gauges.peak_handed, gauges.peak_pending, gauges.peak_reserved,
                 gauges.peak_observed, gauges.peak_used, gauges.total});
}

}  // namespace gpumem::stats
