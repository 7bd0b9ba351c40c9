// A limit above a pool, below one, and over single allocations: none of them reached.
// Only the chains are here; what they promise is in resource_suite.cpp.
// The factory runs on the router's slow path, as config/builder/builder's does.
#include "core/resource/adaptors/limiting.hpp"
#include "tests/conformance/resource_suite.hpp"

namespace gpumem::conformance {

inline resource::budget& wide(resource::chain_context const& home) {
  return *resource::budget::find_or_make({.name = "wide", .device = home.device, .limit = 1ull << 40});
}

struct limiting_over_pool {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = false;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::cuda>(home, 1));
    auto& pool = built->add(std::make_unique<resource::pool>(home, 2, resource::pool_options{}, below));
    built->add(std::make_unique<resource::limiting>(home, 3, pool, wide(home)));
    return built;
  }
};
struct pool_over_limiting {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = false;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::cuda>(home, 1));
    auto& limit = built->add_source(std::make_unique<resource::limiting_source>(2, below, wide(home)));
    built->add(std::make_unique<resource::pool>(home, 3, resource::pool_options{}, limit));
    return built;
  }
};
struct limiting_over_direct {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = false;
  static constexpr bool keeps_blocks = false;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::cuda>(home, 1));
    auto& each = built->add(std::make_unique<resource::direct>(home, 2, below));
    built->add(std::make_unique<resource::limiting>(home, 3, each, wide(home)));
    return built;
  }
};

std::vector<chain_case> limiting_chains() {
  return cases_of<limiting_over_pool, pool_over_limiting, limiting_over_direct>();
}

}  // namespace gpumem::conformance
