// Each adaptor of this kind above a pool, and those that have the form of a source below one.
// Only the chains are here; what they promise is in resource_suite.cpp.
// The factory runs on the router's slow path, as config/builder/builder's does.
#include "core/resource/adaptors/guard.hpp"
#include "core/resource/adaptors/logging.hpp"
#include "core/resource/adaptors/statistics.hpp"
#include "core/resource/adaptors/tracking.hpp"
#include "tests/conformance/resource_suite.hpp"

namespace gpumem::conformance {

struct above_a_pool {
  static constexpr std::uint64_t largest = ~0ull;
  static constexpr bool outlives_context = false;
  static constexpr bool keeps_blocks = true;
  static std::unique_ptr<resource::chain> pool(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& below = built->add_source(std::make_unique<upstream::cuda>(home, 1));
    built->add(std::make_unique<resource::pool>(home, 2, resource::pool_options{}, below));
    return built;
  }
};

stats::event_log& null_log() {
  return *stats::event_log::open("/dev/null", false);
}

struct logging_above : above_a_pool {
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = pool(home);
    built->add(std::make_unique<resource::logging>(home, 3, built->top(), null_log()));
    return built;
  }
};
struct statistics_above : above_a_pool {
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = pool(home);
    built->add(std::make_unique<resource::statistics>(
        home, 3, resource::statistics_options{.callsites = true, .histogram = true}, built->top()));
    return built;
  }
};
struct tracking_above : above_a_pool {
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = pool(home);
    built->add(std::make_unique<resource::tracking>(home, 3, true, built->top()));
    return built;
  }
};
// With its zone of 512 bytes this size fills the driver's pages as others do without one.
struct guarded : above_a_pool {
  static constexpr std::uint64_t largest = (8ull << 20) - 512;
};
struct guard_above : guarded {
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = pool(home);
    built->add(std::make_unique<resource::guard>(home, 3, resource::guard_options{}, built->top()));
    return built;
  }
};
// Each adaptor twice: what one writes, takes or notes the other must not take for the program's.
struct twice_above : above_a_pool {
  static constexpr std::uint64_t largest = (8ull << 20) - 1024;
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = pool(home);
    for (std::size_t node = 3; node < 11; node += 4) {
      built->add(std::make_unique<resource::guard>(home, node, resource::guard_options{}, built->top()));
      built->add(std::make_unique<resource::tracking>(home, node + 1, false, built->top()));
      built->add(std::make_unique<resource::statistics>(home, node + 2, resource::statistics_options{},
                                                        built->top()));
      built->add(std::make_unique<resource::logging>(home, node + 3, built->top(), null_log()));
    }
    return built;
  }
};
struct all_above : guarded {
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = pool(home);
    built->add(std::make_unique<resource::statistics>(home, 3, resource::statistics_options{}, built->top()));
    built->add(std::make_unique<resource::guard>(home, 4, resource::guard_options{}, built->top()));
    built->add(std::make_unique<resource::tracking>(home, 5, false, built->top()));
    built->add(std::make_unique<resource::logging>(home, 6, built->top(), null_log()));
    return built;
  }
};
struct both_below : above_a_pool {
  static std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
    auto built = std::make_unique<resource::chain>();
    auto& cuda = built->add_source(std::make_unique<upstream::cuda>(home, 1));
    auto& counted = built->add_source(
        std::make_unique<resource::segment_statistics>(2, resource::statistics_options{}, cuda));
    auto& logged =
        built->add_source(std::make_unique<resource::segment_logging>(home, 3, counted, null_log()));
    built->add(std::make_unique<resource::pool>(home, 4, resource::pool_options{}, logged));
    return built;
  }
};

std::vector<chain_case> adaptors_chains() {
  return cases_of<logging_above, statistics_above, tracking_above, guard_above, all_above, twice_above,
                  both_below>();
}

}  // namespace gpumem::conformance
