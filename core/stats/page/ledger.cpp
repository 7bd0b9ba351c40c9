// See ledger.hpp.
#include "core/stats/page/ledger.hpp"

#include <algorithm>

namespace gpumem::stats {
namespace {

std::uint64_t difference(std::uint64_t more, std::uint64_t less) noexcept {
  return more > less ? more - less : 0;
}

struct amounts {
  std::uint64_t requested, handed, pending, reserved, observed, elsewhere, unseen;
};

ledger derive(amounts const& from, device_gauges const& gauges) noexcept {
  ledger rows;
  rows.requested = from.requested;
  std::uint64_t const handed = std::max(from.handed, from.requested);
  rows.rounding = handed - from.requested;
  // A block counted before the segment it came from: the reserved bytes are at least what was handed out.
  rows.reserved = std::max(from.reserved, handed);
  rows.pending = std::min(from.pending, rows.reserved - handed);
  rows.cached = rows.reserved - handed - rows.pending;
  rows.observed = from.observed;
  if (gauges.used == 0) return rows;
  std::uint64_t const known = rows.reserved + rows.observed;
  rows.elsewhere = std::min(from.elsewhere, known);
  rows.unseen = from.unseen;
  rows.in_use = known - rows.elsewhere + from.unseen;
  if (gauges.total != 0) rows.free = difference(gauges.total, *rows.in_use);
  return rows;
}

}  // namespace

// Managed memory is on the device or not, and the driver does not say: as much of it lies elsewhere as makes
// what is unseen no less than it was before this process took anything.
last_asked when_last_asked(device_gauges const& gauges) noexcept {
  // Of a copy, or under the lock of the page; the gauges of what is in use are set there alone.
  if (gauges.used == 0) return {};
  std::uint64_t const missing = difference(gauges.used_known + gauges.first_unseen, gauges.used);
  std::uint64_t const elsewhere = std::min(gauges.used_movable, missing);
  return {difference(gauges.used + elsewhere, gauges.used_known), elsewhere};
}

ledger ledger_now(device_counters const& counters, device_gauges const& gauges) noexcept {
  last_asked const asked = when_last_asked(gauges);
  return derive(
      {difference(counters.allocated_requested, counters.freed_requested + counters.lost_requested),
       difference(counters.allocated_handed, counters.freed_handed + counters.lost_handed), gauges.pending,
       gauges.reserved, gauges.observed, std::min(asked.elsewhere, gauges.movable), asked.unseen},
      gauges);
}

ledger ledger_at_peak(device_gauges const& gauges) noexcept {
  return derive({gauges.peak_requested, gauges.peak_handed, gauges.peak_pending, gauges.peak_reserved,
                 gauges.peak_observed, gauges.peak_elsewhere, gauges.peak_unseen},
                gauges);
}

}  // namespace gpumem::stats
