// An arena per stream and one per thread, bins over an arena's superblocks, and an arena over pages.
// Only the chains are here; what they promise is in resource_suite.cpp.
// The factory runs on the router's slow path, as config/builder/builder's does.
#include "core/resource/pools/arena.hpp"
#include "core/upstream/vmm.hpp"
#include "tests/conformance/resource_suite.hpp"

namespace gpumem::conformance {

template <bool per_stream>
struct arena_over_cuda {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = false;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::cuda>(home, 1));
    auto& superblocks = built->add(std::make_unique<resource::suballocator>(
        home, 2, resource::suballocator_options{}, below, "superblocks"));
    resource::arena_options const o{.per_stream = per_stream};
    built->add(std::make_unique<resource::arena>(home, 3, o, superblocks));
    return built;
  }
};
struct bins_over_arena {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = true;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::vmm>(home, 1, 64ull << 30));
    auto& superblocks = built->add(std::make_unique<resource::suballocator>(
        home, 2, resource::suballocator_options{}, below, "superblocks"));
    auto& rest =
        built->add(std::make_unique<resource::arena>(home, 3, resource::arena_options{}, superblocks));
    auto& small = built->add(std::make_unique<resource::fixed_size>(
        home, 4, resource::fixed_size_options{.block_size = 16384}, superblocks));
    built->add(std::make_unique<resource::binning>(
        home, 5, std::vector<resource::binning::bin>{{16384, &small}}, rest));
    return built;
  }
};

std::vector<chain_case> arena_chains() {
  return cases_of<arena_over_cuda<true>, arena_over_cuda<false>, bins_over_arena>();
}

}  // namespace gpumem::conformance
