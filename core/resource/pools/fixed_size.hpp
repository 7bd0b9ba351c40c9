// `fixed_size`: blocks of one size, cut from slabs (RMM's fixed_size_memory_resource, without its 128
// blocks up front; empty slabs go back). A suballocator of one size: best fit is then exact, and nothing
// fragments.
#pragma once

#include <algorithm>

#include "core/driver/managed_memory.hpp"
#include "core/resource/pools/suballocator.hpp"

namespace gpumem::resource {

struct fixed_size_options {
  std::uint64_t block_size = 1ull << 20;  // rounded up to 512 B, of managed memory to whole pages
  std::uint64_t blocks_to_preallocate = 0;
  char const* name = "";  // in the configuration
};

class fixed_size final : public suballocator {
 public:
  fixed_size(chain_context const& home, std::size_t node, fixed_size_options const& o,
             source& upstream) noexcept
      : suballocator(home, node, engine(o, home.kind), upstream, "fixed_size") {}

 private:
  static suballocator_options engine(fixed_size_options const& o, driver::memory_kind kind) noexcept {
    std::uint64_t const step = kind == driver::memory_kind::managed ? driver::managed_page : space::unit;
    std::uint64_t const block = (o.block_size + step - 1) / step * step;
    // A slab is 1 MiB or 8 blocks, and not above 64 MiB unless one block is.
    std::uint64_t const slab =
        std::max(block, std::min<std::uint64_t>(std::max<std::uint64_t>(1ull << 20, 8 * block), 64ull << 20));
    return {.name = o.name,
            .round_to = block,
            .largest = kind == driver::memory_kind::managed ? block : o.block_size,
            .initial = o.blocks_to_preallocate * block,
            .growth = slab,
            .release_threshold = 2 * slab};
  }
};

}  // namespace gpumem::resource
