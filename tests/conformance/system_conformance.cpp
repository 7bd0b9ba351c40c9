// The upstream `system`: each request by itself, and a pool. The host is as large as the scripted device, and
// its memory is counted there. Only the chains are here; what they promise is in resource_suite.cpp. The
// factory runs on the router's slow path, as config/builder/builder's does.
#include "core/upstream/host/system.hpp"
#include "tests/conformance/resource_suite.hpp"
#include "tests/unit/fake_driver/fake_host.hpp"

namespace gpumem::conformance {

template <bool pooled>
struct over_system {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = true;
  static constexpr bool keeps_blocks = pooled;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below =
        built->add_source(std::make_unique<upstream::system>(home, 1, 0, tests::fake_host::instance()));
    if (pooled) {
      built->add(std::make_unique<resource::pool>(home, 2, resource::pool_options{}, below));
    } else {
      built->add(std::make_unique<resource::direct>(home, 2, below));
    }
    return built;
  }
};

std::vector<chain_case> system_chains() {
  return cases_of<over_system<true>, over_system<false>>();
}

}  // namespace gpumem::conformance
