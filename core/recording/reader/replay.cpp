// See replay.hpp.
#include "core/recording/reader/replay.hpp"

#include <algorithm>

namespace gpumem::recording {

void replay::count(event const& one, bool more) {
  if (one.keys == key_kind::phase) return;
  device_totals& of = devices_[one.device];
  auto const change = [more](std::uint64_t& figure, std::uint64_t bytes) {
    figure += more ? bytes : 0 - bytes;
  };
  if (one.keys == key_kind::block) {
    change(of.requested, one.bytes);
    change(of.rounding, one.rounding);
    of.highest_requested = std::max(of.highest_requested, of.requested);
  } else {
    change(one.keys == key_kind::segment ? of.reserved : of.observed, one.bytes);
  }
}

live_set::change replay::apply(event const& one) {
  live_set::change const changed = live_.apply(one);
  if (!changed.known) ++contradictions_;
  if (changed.before.what != action::none) count(changed.before, false);
  if (is_taken(one.what)) count(one, true);
  return changed;
}

}  // namespace gpumem::recording
