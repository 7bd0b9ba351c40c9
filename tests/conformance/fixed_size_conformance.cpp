// Blocks of one size, over an upstream and over a pool.
// Only the chains are here; what they promise is in resource_suite.cpp.
// The factory runs on the router's slow path, as config/builder/builder's does.
#include "tests/conformance/resource_suite.hpp"

namespace gpumem::conformance {

struct fixed_over_cuda {
  static constexpr std::uint64_t largest = 64 << 10;
  static constexpr bool outlives_context = false;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::cuda>(home, 1));
    built->add(std::make_unique<resource::fixed_size>(
        home, 2, resource::fixed_size_options{.block_size = 64 << 10}, below));
    return built;
  }
};
struct fixed_over_pool {
  static constexpr std::uint64_t largest = 64 << 10;
  static constexpr bool outlives_context = false;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::cuda>(home, 1));
    auto& middle = built->add(std::make_unique<resource::pool>(home, 2, resource::pool_options{}, below));
    built->add(std::make_unique<resource::fixed_size>(
        home, 3, resource::fixed_size_options{.block_size = 64 << 10}, middle));
    return built;
  }
};

std::vector<chain_case> fixed_size_chains() {
  return cases_of<fixed_over_cuda, fixed_over_pool>();
}

}  // namespace gpumem::conformance
