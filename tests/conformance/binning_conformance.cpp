// Bins over a pool.
// Only the chains are here; what they promise is in resource_suite.cpp.
// The factory runs on the router's slow path, as config/builder/builder's does.
#include "tests/conformance/resource_suite.hpp"

namespace gpumem::conformance {

struct bins_over_pool {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = false;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::cuda>(home, 1));
    auto& rest = built->add(std::make_unique<resource::pool>(home, 2, resource::pool_options{}, below));
    std::vector<resource::binning::bin> bins;
    for (std::uint64_t const max : {1024u, 16384u, 1u << 20}) {
      bins.push_back({max, &built->add(std::make_unique<resource::fixed_size>(
                               home, 3, resource::fixed_size_options{.block_size = max}, rest))});
    }
    built->add(std::make_unique<resource::binning>(home, 4, bins, rest));
    return built;
  }
};

std::vector<chain_case> binning_chains() {
  return cases_of<bins_over_pool>();
}

}  // namespace gpumem::conformance
