// A fallback whose first chain is full at 4 MiB, so that every test spills; and the same below a pool.
// Only the chains are here; what they promise is in resource_suite.cpp.
// The factory runs on the router's slow path, as config/builder/builder's does.
#include "core/resource/adaptors/limiting.hpp"
#include "core/resource/selectors/fallback.hpp"
#include "core/upstream/managed.hpp"
#include "tests/conformance/resource_suite.hpp"

namespace gpumem::conformance {

inline resource::budget& narrow(resource::chain_context const& home) {
  return *resource::budget::find_or_make({.name = "narrow", .device = home.device, .limit = 4u << 20});
}

struct pool_and_managed_pool {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = false;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& cuda = built->add_source(std::make_unique<upstream::cuda>(home, 1));
    auto& limit = built->add_source(std::make_unique<resource::limiting_source>(2, cuda, narrow(home)));
    auto& first = built->add(std::make_unique<resource::pool>(home, 3, resource::pool_options{}, limit));
    auto& managed = built->add_source(std::make_unique<upstream::managed>(home, 4));
    auto& second = built->add(std::make_unique<resource::pool>(home, 5, resource::pool_options{}, managed));
    built->add(std::make_unique<resource::fallback>(
        home, 6, std::vector<resource::fallback::branch>{{&first, 7}, {&second, 8}}));
    return built;
  }
};
struct pool_over_fallback {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = false;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& cuda = built->add_source(std::make_unique<upstream::cuda>(home, 1));
    auto& limit = built->add_source(std::make_unique<resource::limiting_source>(2, cuda, narrow(home)));
    auto& managed = built->add_source(std::make_unique<upstream::managed>(home, 3));
    auto& either = built->add_source(std::make_unique<resource::fallback_source>(
        home, 4, std::vector<resource::fallback_source::branch>{{&limit, 5}, {&managed, 6}}));
    built->add(std::make_unique<resource::pool>(home, 7, resource::pool_options{}, either));
    return built;
  }
};

std::vector<chain_case> fallback_chains() {
  return cases_of<pool_and_managed_pool, pool_over_fallback>();
}

}  // namespace gpumem::conformance
