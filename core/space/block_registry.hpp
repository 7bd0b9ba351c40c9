// The three tables of a process that say where blocks are: blocks by handle, blocks by address, segments. And
// which of them were sampled.
// One instance, made at the first CUDA call and never destroyed; a forked child makes its own.
#pragma once

#include "core/space/blocks/block_map.hpp"
#include "core/space/blocks/block_table.hpp"
#include "core/space/blocks/sampled_blocks.hpp"
#include "core/space/segment.hpp"

namespace gpumem::space {

struct block_registry {
  block_table blocks;
  block_map map{blocks};
  segment_table segments;
  sampled_blocks sampled_ones;
};

}  // namespace gpumem::space
