// The upstream vmm: a pool that grows in place over it, bins over that, and each request in a range of its
// own. Only the chains are here; what they promise is in resource_suite.cpp. The factory runs on the router's
// slow path, as config/builder/builder's does.
#include "core/upstream/vmm.hpp"
#include "tests/conformance/resource_suite.hpp"

namespace gpumem::conformance {

struct pool_over_vmm {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = true;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::vmm>(home, 1, 0));
    built->add(std::make_unique<resource::pool>(home, 2, resource::pool_options{}, below));
    return built;
  }
};
struct bins_over_vmm {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = true;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::vmm>(home, 1, 64ull << 30));
    auto& rest = built->add(std::make_unique<resource::pool>(home, 2, resource::pool_options{}, below));
    auto& small = built->add(std::make_unique<resource::fixed_size>(
        home, 3, resource::fixed_size_options{.block_size = 16384}, below));
    built->add(std::make_unique<resource::binning>(
        home, 4, std::vector<resource::binning::bin>{{16384, &small}}, rest));
    return built;
  }
};
struct direct_vmm {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = true;
  static constexpr bool keeps_blocks = false;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::vmm>(home, 1, 0));
    built->add(std::make_unique<resource::direct>(home, 2, below));
    return built;
  }
};

std::vector<chain_case> vmm_chains() {
  return cases_of<pool_over_vmm, bins_over_vmm, direct_vmm>();
}

}  // namespace gpumem::conformance
