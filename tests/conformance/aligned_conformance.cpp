// `aligned` above a pool and above the driver alone: every promise holds for over-aligned blocks too.
// Only the chains are here; what they promise is in resource_suite.cpp.
// The factory runs on the router's slow path, as config/builder/builder's does.
#include "core/resource/adaptors/aligned.hpp"
#include "tests/conformance/resource_suite.hpp"

namespace gpumem::conformance {

struct aligned_pool {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = false;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::cuda>(home, 1));
    auto& pool = built->add(std::make_unique<resource::pool>(home, 2, resource::pool_options{}, below));
    built->add(std::make_unique<resource::aligned>(home, 3, 4096, 10'000, pool));
    return built;
  }
};
struct aligned_direct {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = false;
  static constexpr bool keeps_blocks = false;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::cuda>(home, 1));
    auto& direct = built->add(std::make_unique<resource::direct>(home, 2, below));
    built->add(std::make_unique<resource::aligned>(home, 3, 65536, 0, direct));
    return built;
  }
};

std::vector<chain_case> aligned_chains() {
  return cases_of<aligned_pool, aligned_direct>();
}

}  // namespace gpumem::conformance
