// A pool over each kind of upstream.
// Only the chains are here; what they promise is in resource_suite.cpp.
// The factory runs on the router's slow path, as config/builder/builder's does.
#include "core/upstream/managed.hpp"
#include "tests/conformance/resource_suite.hpp"

namespace gpumem::conformance {

struct pool_over_cuda {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = false;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::cuda>(home, 1));
    built->add(std::make_unique<resource::pool>(home, 2, resource::pool_options{}, below));
    return built;
  }
};
struct pool_over_managed {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = false;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::managed>(home, 1));
    built->add(std::make_unique<resource::pool>(home, 2, resource::pool_options{}, below));
    return built;
  }
};
struct pool_over_async {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = true;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below =
        built->add_source(std::make_unique<upstream::cuda_async>(home, 1, upstream::cuda_async::options{}));
    built->add(std::make_unique<resource::pool>(home, 2, resource::pool_options{}, below));
    return built;
  }
};

std::vector<chain_case> pool_chains() {
  return cases_of<pool_over_cuda, pool_over_managed, pool_over_async>();
}

}  // namespace gpumem::conformance
