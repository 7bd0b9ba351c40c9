// See start_memory.hpp. The figures are those of the resources: initial_pool_size, and blocks in units of 512
// B.
#include "shim/cli/check/start_memory.hpp"

#include <algorithm>

#include "config/schema/schema.hpp"
#include "core/base/text/bytes.hpp"
#include "shim/cli/check/chain_walk.hpp"

namespace gpumem::cli {
namespace {

constexpr std::uint64_t unit = 512;

std::uint64_t blocks_at_start(config::resource_plan const& resource, device const& on) {
  auto const found = resource.options.find("blocks_to_preallocate");
  auto const* const blocks =
      found == resource.options.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  if (blocks == nullptr) return 0;
  std::uint64_t const block = (bytes_of(resource, "block_size", on, 0) + unit - 1) / unit * unit;
  return static_cast<std::uint64_t>(*blocks) * block;
}

}  // namespace

start_memory memory_at_start(config::plan const& plan, device const& on) {
  start_memory result;
  for (auto const& chain : chains_of(plan, on)) {
    walk(plan, *chain.names, on.number, [&](config::resource_plan const& resource, position const& at) {
      constexpr std::uint64_t unknown = ~std::uint64_t{0};
      std::uint64_t bytes = resource.options.contains("initial_pool_size")
                                ? bytes_of(resource, "initial_pool_size", on, unknown)
                                : 0;
      if (bytes == unknown) {
        result.unknown = true;
        bytes = 0;
      }
      bytes += blocks_at_start(resource, on);
      if (bytes == 0) return;
      // What a pool below holds already is not taken twice.
      auto const& names = at.names;
      std::uint64_t cover = 0;
      for (std::size_t i = at.index + 1; i < names.size(); ++i) {
        auto const* const below = plan.find(names[i], on.number);
        if (below != nullptr && below->type == "pool")
          cover = std::max(cover, bytes_of(*below, "initial_pool_size", on, 0));
      }
      auto const* const end = plan.find(names.back(), on.number);
      auto const* const type = end == nullptr ? nullptr : config::find_type(end->type);
      bool const on_device = type == nullptr || !(type->is("managed") || type->is("pageable"));
      auto& sum = chain.kind == "host" ? result.host : on_device ? result.device : result.managed;
      sum += bytes - std::min(bytes, cover);
      result.text += (result.text.empty() ? "" : ", ") + std::string(base::print_exact_bytes(bytes).view()) +
                     " by " + resource.name;
    });
  }
  return result;
}

}  // namespace gpumem::cli
