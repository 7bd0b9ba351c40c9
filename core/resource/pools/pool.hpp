// `pool`: best fit with merging, over segments that are added with need and given back when empty (RMM's
// pool_memory_resource, without its one fixed piece and its linear search).
#pragma once

#include "core/resource/pools/suballocator.hpp"

namespace gpumem::resource {

struct pool_options {
  std::uint64_t initial_pool_size = 0;
  std::uint64_t maximum_pool_size = ~std::uint64_t{0};
  std::uint64_t growth = 0;  // 0: 1/32 of what is reserved, at least 2 MiB
  std::uint64_t release_threshold = ~std::uint64_t{0};
  std::uint64_t sparing_beyond = ~std::uint64_t{0};  // see suballocator_options
  bool takes_no_more = false;
  std::uint64_t release_after = ~std::uint64_t{0};
  std::uint64_t kept_idle = 0;
  std::uint64_t earned_from = ~std::uint64_t{0};
  char const* name = "";
};

class pool final : public suballocator {
 public:
  pool(chain_context const& home, std::size_t node, pool_options const& o, source& upstream) noexcept
      : suballocator(home, node,
                     {.name = o.name,
                      .initial = whole_units(o.initial_pool_size),
                      .maximum = o.maximum_pool_size,
                      .growth = o.growth,
                      .release_threshold = o.release_threshold,
                      .sparing_beyond = o.sparing_beyond,
                      .takes_no_more = o.takes_no_more,
                      .release_after = o.release_after,
                      .kept_idle = o.kept_idle,
                      .earned_from = o.earned_from},
                     upstream, "pool") {}

 private:
  // What is less than a block can be no segment.
  static std::uint64_t whole_units(std::uint64_t bytes) noexcept {
    return bytes / space::unit * space::unit + (bytes % space::unit != 0 ? space::unit : 0);
  }
};

}  // namespace gpumem::resource
