// What the plan can answer by itself; see plan.hpp. Any thread: the plan is immutable once loaded.
#include "config/plan/plan.hpp"

namespace gpumem::config {

std::uint64_t size_value::resolve(std::uint64_t free_bytes, std::uint64_t total_bytes) const noexcept {
  if (kind == unit::bytes) return bytes;
  // In integers: a double loses bytes of a size above 2^53.
  constexpr unsigned parts = 10'000;  // of a percent; as many as can be written
  auto const share = static_cast<unsigned __int128>(percent * parts + 0.5);
  std::uint64_t const whole = kind == unit::percent_of_free ? free_bytes : total_bytes;
  return static_cast<std::uint64_t>(whole * share / (100ULL * parts));
}

route_plan const& plan::route_of(std::string const& kind) const {
  return kind == "host" ? host : kind == "managed" ? managed : device;
}

resource_plan const* plan::find(std::string const& name, int device_number) const {
  if (auto const overrides = devices.find(device_number); overrides != devices.end()) {
    if (auto const found = overrides->second.find(name); found != overrides->second.end())
      return &found->second;
  }
  auto const found = resources.find(name);
  return found == resources.end() ? nullptr : &found->second;
}

}  // namespace gpumem::config
