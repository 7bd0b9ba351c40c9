// See parts.hpp. Here: pool, fixed_size and their like.
#include "config/builder/parts.hpp"
#include "core/resource/pools/fixed_size.hpp"
#include "core/resource/pools/pool.hpp"
#include "core/upstream/host/host_memory.hpp"

namespace gpumem::config {

namespace {

constexpr std::uint64_t most = ~std::uint64_t{0};

// What is kept whatever its age has none.
std::uint64_t release_after(option_reader const& options) {
  return options.word("release_threshold") == "max" ? most : options.duration("release_after");
}

// From here on memory is spared: three quarters of what there is, of host memory of what the host and the
// control groups of this process have.
std::uint64_t plenty(option_reader const& options, site const& at) noexcept {
  bool const of_host = at.home.kind == driver::memory_kind::host;
  std::uint64_t const all =
      of_host ? upstream::host_memory::of_this_machine().measure().total : options.total();
  return all != 0 ? all / 4 * 3 : most;  // nobody says how much there is
}

std::unique_ptr<resource::suballocator> pool(option_reader const& options, site const& at,
                                             resource::source& below) {
  resource::pool_options const o{.initial_pool_size = options.bytes("initial_pool_size", 0),
                                 .maximum_pool_size = options.bytes("maximum_pool_size", ~std::uint64_t{0}),
                                 .growth = options.bytes("growth", 0),
                                 .release_threshold = options.bytes("release_threshold", ~std::uint64_t{0}),
                                 .sparing_beyond = options.bytes("sparing_beyond", plenty(options, at)),
                                 .takes_no_more = options.value<size_value>("sparing_beyond") != nullptr,
                                 .release_after = release_after(options),
                                 .kept_idle = options.bytes("release_threshold", 0),
                                 .earned_from = options.bytes("earned_from", most),
                                 .name = options.name().c_str()};
  return std::make_unique<resource::pool>(at.home, at.node, o, below);
}

std::unique_ptr<resource::suballocator> fixed_size(option_reader const& options, site const& at,
                                                   resource::source& below) {
  resource::fixed_size_options const o{
      .block_size = options.bytes("block_size", 1ull << 20),
      .blocks_to_preallocate = static_cast<std::uint64_t>(options.number("blocks_to_preallocate", 0)),
      .name = options.name().c_str()};
  return std::make_unique<resource::fixed_size>(at.home, at.node, o, below);
}

}  // namespace

arena_made make_arena(option_reader const& options, site const& at, std::size_t superblocks,
                      resource::source& below) {
  resource::suballocator_options const engine{.name = options.name().c_str(),
                                              .maximum_option = "arena_size",
                                              .maximum = options.bytes("arena_size", ~std::uint64_t{0}),
                                              .sparing_beyond = plenty(options, at),
                                              .release_after = options.duration("release_after"),
                                              .earned_from = options.bytes("earned_from", most)};
  auto& shared = at.chain.add(
      std::make_unique<resource::suballocator>(at.home, superblocks, engine, below, "superblocks"));
  resource::arena_options const o{.per_stream = options.word("per") != "thread",
                                  .dump_log_on_failure = options.flag("dump_log_on_failure", false),
                                  .release_after = engine.release_after,
                                  .earned_from = engine.earned_from};
  return {at.chain.add(std::make_unique<resource::arena>(at.home, at.node, o, shared)), shared};
}

resource::suballocator* make_suballocator(option_reader const& options, site const& at,
                                          resource::source& below) {
  std::unique_ptr<resource::suballocator> made;
  if (options.type() == "pool") made = pool(options, at, below);
  if (options.type() == "fixed_size") made = fixed_size(options, at, below);
  return made != nullptr ? &at.chain.add(std::move(made)) : nullptr;
}

}  // namespace gpumem::config
