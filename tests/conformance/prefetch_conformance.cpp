// `prefetch` above a pool of managed memory, below it, and above the driver alone. The scripted driver cannot
// move memory: the promises hold all the same. Only the chains are here; what they promise is in
// resource_suite.cpp. The factory runs on the router's slow path, as config/builder/builder's does.
#include "core/resource/adaptors/prefetch.hpp"
#include "core/upstream/managed.hpp"
#include "tests/conformance/resource_suite.hpp"

namespace gpumem::conformance {

template <bool above_pool, bool below_pool>
struct prefetch_managed {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = false;
  static constexpr bool keeps_blocks = above_pool || below_pool;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    resource::source* segments = &built->add_source(std::make_unique<upstream::managed>(home, 1));
    if (below_pool)
      segments = &built->add_source(std::make_unique<resource::prefetch_source>(home, 2, 0, *segments));
    resource::resource* blocks = nullptr;
    if (keeps_blocks) {
      blocks = &built->add(std::make_unique<resource::pool>(home, 3, resource::pool_options{}, *segments));
    } else {
      blocks = &built->add(std::make_unique<resource::direct>(home, 3, *segments));
    }
    if (!below_pool) built->add(std::make_unique<resource::prefetch>(home, 4, 0, *blocks));
    return built;
  }
};

std::vector<chain_case> prefetch_chains() {
  return cases_of<prefetch_managed<true, false>, prefetch_managed<false, true>,
                  prefetch_managed<false, false>>();
}

}  // namespace gpumem::conformance
