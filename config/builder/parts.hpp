// One small function for each resource type: a plan's options -> the object of core. Called by the builder,
// bottom up, while a chain is made. Each returns null for a type that is not its own. The chain owns what
// is made.
#pragma once

#include "config/builder/option_reader.hpp"
#include "core/resource/chain.hpp"
#include "core/resource/pools/arena.hpp"
#include "core/resource/pools/suballocator.hpp"
#include "core/resource/selectors/fallback.hpp"

namespace gpumem::config {

// Where a part goes: the chain that owns it, and the node of the report that counts it.
struct site {
  resource::chain& chain;
  resource::chain_context const& home;
  std::size_t node;
};

// upstream_parts.cpp: what stands at the end of a chain.
resource::source* make_upstream(option_reader const& options, site const& at);

// The flags of cuMemHostAlloc that a pinned_host gives to every request.
unsigned pinned_flags_of(option_reader const& options);

// pool_parts.cpp: what cuts the segments of `below` into blocks.
resource::suballocator* make_suballocator(option_reader const& options, site const& at,
                                          resource::source& below);

// An arena, and the suballocator that its superblocks come from; `superblocks` is the node of that one.
struct arena_made {
  resource::arena& blocks;
  resource::suballocator& superblocks;
};
arena_made make_arena(option_reader const& options, site const& at, std::size_t superblocks,
                      resource::source& below);

// adaptor_parts.cpp: what adds a behaviour to blocks, or, below a pool, to segments. Not every adaptor has
// both forms.
resource::resource* make_adaptor(option_reader const& options, site const& at, resource::resource& below);
resource::source* make_source_adaptor(option_reader const& options, site const& at, resource::source& below);

// observer_parts.cpp: of these, what only watches; make_adaptor asks them last.
resource::resource* make_observer(option_reader const& options, site const& at, resource::resource& below);
resource::source* make_source_observer(option_reader const& options, site const& at, resource::source& below);

// The chains are built already.
resource::resource* make_fallback(site const& at, std::vector<resource::fallback::branch> chains);
resource::source* make_fallback(site const& at, std::vector<resource::fallback_source::branch> chains);

}  // namespace gpumem::config
