// See chain_sizes.hpp. From the end of a chain upwards: `most` is what has been found below so far.
#include "config/checks/chain_sizes.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "config/reader/values/bounds.hpp"
#include "core/base/text/bytes.hpp"

namespace gpumem::config {
namespace {

constexpr std::uint64_t unlimited = ~std::uint64_t{0};

// The largest piece that can be had, and who says so.
struct piece {
  std::uint64_t bytes = unlimited;
  std::string from, key;
};

std::string exact(std::uint64_t bytes) {
  return std::string(base::print_exact_bytes(bytes).view());
}

std::uint64_t known_bytes(resource_plan const& resource, std::string const& key, std::uint64_t unset) {
  auto const found = resource.options.find(key);
  auto const* const size =
      found == resource.options.end() ? nullptr : std::get_if<size_value>(&found->second);
  return size == nullptr || size->kind != size_value::unit::bytes ? unset : size->bytes;
}

class pieces {
 public:
  explicit pieces(chain_view const& top) { chain(top); }

 private:
  // What the whole chain gives in one piece.
  piece chain(chain_view const& view) {
    piece most;
    for (std::size_t i = view.names.size(); i-- > 0;) {
      resource_plan const* const resource = view.resource(view.names[i]);
      if (resource == nullptr) continue;
      if (resource->type == "fallback") most = best_branch(*resource, view);
      std::set<std::string> seen;
      part(*resource, view, most, seen);
      limit(*resource, most);
    }
    return most;
  }

  piece best_branch(resource_plan const& fallback, chain_view const& user) {
    piece best{0, {}, {}};
    if (!entered_.insert(fallback.name).second) return {};  // a cycle, or inside of another: told elsewhere
    for (auto const& branch : branches(fallback, user)) {
      piece const found = chain(branch);
      if (found.bytes >= best.bytes) best = found;
    }
    return best;
  }

  static void limit(resource_plan const& resource, piece& most) {
    for (char const* key : {"block_size", "allocation_limit", "maximum_pool_size", "arena_size"}) {
      std::uint64_t const bytes = known_bytes(resource, key, unlimited);
      if (bytes < most.bytes) most = {bytes, resource.name, key};
    }
  }

  // What the resource, and what its bins ask of those below.
  static void part(resource_plan const& resource, chain_view const& view, piece const& most,
                   std::set<std::string>& seen) {
    ask(resource, "initial_pool_size", known_bytes(resource, "initial_pool_size", 0), view, most);
    if (std::uint64_t const block = known_bytes(resource, "block_size", 0); block != 0) {
      auto const found = resource.options.find("blocks_to_preallocate");
      auto const* const count =
          found == resource.options.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
      std::uint64_t const blocks = count == nullptr ? 0 : static_cast<std::uint64_t>(*count);
      ask(resource, "block_size", block, view, most);
      if (block <= unlimited / std::max<std::uint64_t>(blocks, 1))
        ask(resource, "blocks_to_preallocate", block * blocks, view, most);
    }
    auto const* const bins = bins_of(resource);
    if (bins == nullptr || !seen.insert(resource.name).second) return;
    for (auto const& entry : *bins) {
      resource_plan const* const to = view.resource(entry.to);
      type_info const* const type = to == nullptr ? nullptr : find_type(to->type);
      if (type != nullptr && type->part == role::adaptor) part(*to, view, most, seen);
    }
  }

  static void ask(resource_plan const& resource, std::string const& key, std::uint64_t bytes,
                  chain_view const& view, piece const& most) {
    if (bytes <= most.bytes) return;
    std::string const device = "device." + std::to_string(view.device) + ".";
    auto const where = [&](std::string const& of, std::string const& what) {
      return view.all.where(device + of + "." + what, "resource." + of + "." + what, "resource." + of);
    };
    file_position const limited = where(most.from, most.key);
    view.out.error("E312", where(resource.name, key),
                   quoted(resource.name) + " takes " + exact(bytes) + " in one piece, and " +
                       quoted(most.from) + " below it gives at most " + exact(most.bytes) + " (" + most.key +
                       ", " + std::to_string(limited.line) + ":" + std::to_string(limited.column) + ")",
                   "lower " + key + " of " + quoted(resource.name) + ", or raise " + most.key + " of " +
                       quoted(most.from));
  }

  std::set<std::string> entered_;  // fallbacks
};

// Bins and branches included. A name stands for as many wherever it stands, so each is counted once.
class census {
 public:
  explicit census(chain_view const& of) : of_(of) {}

  std::size_t list(std::vector<std::string> const& names) {
    std::size_t sum = 0;
    for (auto const& name : names) sum = std::min(sum + one(name), most_parts + 1);
    return sum;
  }

 private:
  std::size_t one(std::string const& name) {
    if (auto const known = parts_.find(name); known != parts_.end()) return known->second;
    parts_[name] = 0;  // cycles are told elsewhere
    resource_plan const* const resource = of_.resource(name);
    std::size_t sum = 1;
    if (auto const* const bins = resource == nullptr ? nullptr : bins_of(*resource)) {
      std::set<std::string> seen;
      for (auto const& entry : *bins) {
        if (entry.to.empty() || seen.insert(entry.to).second)
          sum = std::min(sum + (entry.to.empty() ? 1 : one(entry.to)), most_parts + 1);
      }
    }
    if (auto const* const chains = resource == nullptr ? nullptr : chains_of(*resource)) {
      for (auto const& names : *chains) sum = std::min(sum + list(names), most_parts + 1);
    }
    return parts_[name] = sum;
  }

  chain_view const& of_;
  std::map<std::string, std::size_t> parts_;
};

}  // namespace

void check_parts(chain_view const& chain) {
  if (census(chain).list(chain.names) <= most_parts) return;
  chain.out.error("E313", chain.at(0),
                  chain.shown + " is built of more than " + std::to_string(most_parts) + " parts",
                  "bins and chains of all its resources count: use fewer bins, or fewer chains");
}

void check_sizes(chain_view const& chain) {
  pieces{chain};
}

}  // namespace gpumem::config
