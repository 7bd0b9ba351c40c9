// See phases.hpp.
#include "core/report/phases.hpp"

#include "core/report/document.hpp"

namespace gpumem::report {
namespace {

// By the monotonic clock.
std::uint64_t last_moment(stats::snapshot const& from, document const& end) {
  auto const duration = end.find("duration_ns");
  bool const is_told = duration != end.end() && duration->is_number_unsigned() && *duration != 0;
  return is_told ? from.opened_mono_ns + duration->get<std::uint64_t>() : from.looked_at_ns;
}

document phase_devices(stats::phase_totals const& of) {
  document devices = document::array();
  for (stats::phase_device const& one : of.devices) {
    devices.push_back({{"device", one.device},
                       {"highest_bytes", one.highest},
                       {"added_bytes", one.added},
                       {"requests", one.requests},
                       {"refusals", one.refusals},
                       {"growths", one.growths}});
  }
  return devices;
}

}  // namespace

document phases_of(stats::snapshot const& from, document const& end) {
  std::uint64_t const until = last_moment(from, end);
  document names = document::array();
  for (stats::phase_totals const& one : from.phases) {
    names.push_back({{"name", one.name},
                     {"entered", one.entered},
                     {"inside_ns", one.inside_until(until)},
                     {"open", one.open},
                     {"devices", phase_devices(one)}});
  }
  return {{"names", std::move(names)}, {"unmeasured", from.phases_unmeasured}};
}

}  // namespace gpumem::report
