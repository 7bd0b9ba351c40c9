// See builder.hpp. Here: which part stands on which; *_parts.cpp make the parts.
#include "config/builder/builder.hpp"

#include <algorithm>

#include "config/builder/parts.hpp"
#include "config/checks/segment_needs.hpp"
#include "config/reader/sections/rule_checks.hpp"
#include "config/schema/schema.hpp"
#include "core/base/text/bytes.hpp"
#include "core/resource/pools/direct.hpp"
#include "core/resource/pools/fixed_size.hpp"
#include "core/resource/selectors/binning.hpp"
#include "core/resource/selectors/by_flags.hpp"
#include "core/resource/selectors/crossing.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::config {

namespace {

plan const* in_use = nullptr;

bool is_share(option const& held, size_value::unit of) {
  auto const* const size = std::get_if<size_value>(&held);
  return size != nullptr && size->kind == of;
}

// Whether a size of any resource is a share of the free memory of its device, or of all of it.
bool has_shares(plan const& effective, size_value::unit of) {
  auto const any = [of](std::map<std::string, resource_plan> const& resources) {
    return std::ranges::any_of(resources, [of](auto const& named) {
      return std::ranges::any_of(named.second.options,
                                 [of](auto const& set) { return is_share(set.second, of); });
    });
  };
  return any(effective.resources) ||
         std::ranges::any_of(effective.devices, [&](auto const& own) { return any(own.second); });
}

// Where in the chain the construction stands, bottom up: what is below as a resource and as a source of
// segments.
struct ground {
  resource::resource* below = nullptr;  // null: nothing serves blocks here yet
  resource::source* segments = nullptr;
  resource::suballocator* lender = nullptr;  // where the segments come from, adaptors apart; null: no pool
  resource::source* unpooled = nullptr;      // segments of the driver, with nothing but adaptors between
  unsigned flags = 0;                        // of page-locked memory, that all of it has
};

// What the parts further up ask for.
struct need {
  bool blocks = true;
  bool segments = false;

  need below(resource_plan const& r, int device) const {
    if (cuts_segments(r.type)) return {false, true};
    return {blocks, segments || asks_for_segments(*in_use, r, device)};
  }
};

class construction {
 public:
  construction(plan const& effective, route_plan const& route, char const* route_name,
               resource::chain_context const& home)
      : plan_(effective),
        route_(route),
        route_name_(route_name),
        home_(home),
        built_(std::make_unique<resource::chain>()) {
    // The driver takes its time to say what is free, and the program's first allocation waits for it.
    bool const of_free = has_shares(plan_, size_value::unit::percent_of_free);
    if (!of_free && total_ != 0) return;
    std::size_t free_bytes = 0;
    std::size_t total = 0;
    CUresult const code = driver::real.cuMemGetInfo_v2(&free_bytes, &total);
    if (code == CUDA_SUCCESS) {
      free_ = free_bytes;
      total_ = total;
    } else if (of_free || has_shares(plan_, size_value::unit::percent_of_total)) {
      // A share of nothing would be a limit that no request keeps.
      throw driver::allocation_failed(code, "configuration", "the driver does not say what a % is of");
    }
  }

  std::unique_ptr<resource::chain> run() {
    stack_list(route_.chain, 0, {});
    for (auto* part : prepared_) part->prepare();
    return std::move(built_);
  }

 private:
  resource_plan const& find(std::string const& name) const { return *plan_.find(name, home_.device); }
  option_reader options_of(resource_plan const& r) const { return {r, free_, total_}; }

  std::size_t register_node(std::string const& name, std::string const& type, unsigned depth,
                            std::string const& options) const {
    return stats::register_node(name, type, depth, home_.device, route_name_, options);
  }
  std::size_t register_node(resource_plan const& r, unsigned depth) {
    std::size_t const node = register_node(r.name, r.type, depth, options_of(r).shown());
    if (r.type == "arena") superblocks_[node] = register_node("superblocks", "superblocks", depth + 1, "");
    return node;
  }

  // A list of names, top first; the top serves what is needed.
  ground stack_list(std::vector<std::string> const& names, unsigned depth, need wanted) {
    // Nodes are registered top first: that is the order of the report.
    std::vector<std::size_t> nodes;
    for (auto const& name : names) {
      nodes.push_back(register_node(find(name), depth + static_cast<unsigned>(nodes.size())));
    }
    ground here;
    for (std::size_t i = names.size(); i-- > 0;) {
      need of_this = wanted;
      for (std::size_t above = 0; above < i; ++above)
        of_this = of_this.below(find(names[above]), home_.device);
      stack(find(names[i]), nodes[i], depth + static_cast<unsigned>(i), of_this, here);
    }
    if (wanted.blocks) serve_blocks(here, depth + static_cast<unsigned>(names.size()));
    return here;
  }

  // Puts one resource on what is built so far.
  void stack(resource_plan const& r, std::size_t node, unsigned depth, need wanted, ground& here) {
    option_reader const options = options_of(r);
    site const at{*built_, home_, node};
    if (r.type == "binning") {
      serve_blocks(here, depth + 1);
      here.below = &built_->add(make_bins(options, node, depth, here));
    } else if (auto* upstream = make_upstream(options, at)) {
      here.segments = here.unpooled = upstream;
      here.lender = nullptr;
      if (r.type == "pinned_host") here.flags = pinned_flags_of(options);
    } else if (r.type == "fallback") {
      stack_fallback(options, at, depth, wanted, here);
    } else if (!cuts_segments(r.type)) {
      adapt(r, options, at, depth, wanted, here);
    } else if (here.segments == nullptr) {
      throw not_built(r);
    } else if (r.type == "arena") {
      auto const [blocks, superblocks] = make_arena(options, at, superblocks_.at(node), *here.segments);
      here.below = &apart(blocks, here, depth);
      here.segments = here.lender = &superblocks;
    } else if (auto* part = make_suballocator(options, at, *here.segments)) {
      prepared_.push_back(part);
      if (here.lender != nullptr) here.lender->lends_to(*part);
      here.below = &apart(*part, here, depth);
      here.segments = here.lender = part;
    }
  }

  // Below a pool an adaptor sees segments; where blocks come through as well (binning), both.
  void adapt(resource_plan const& r, option_reader const& options, site const& at, unsigned depth,
             need wanted, ground& here) {
    if (!wanted.segments) serve_blocks(here, depth + 1);
    if (here.below != nullptr) {
      here.below = make_adaptor(options, at, *here.below);
      if (here.below == nullptr) throw not_built(r);
    }
    if (!wanted.segments) return;
    if (here.segments == nullptr) throw not_built(r);
    bool const unpooled = here.segments == here.unpooled;
    here.segments = make_source_adaptor(options, at, *here.segments);
    if (here.segments == nullptr) throw not_built(r);
    if (unpooled) here.unpooled = here.segments;
  }

  // A pool of a route whose requests have flags serves those whose flags fit (by_flags). The others get a
  // resource of their own above the same source: a free is heard on one way alone.
  resource::resource& apart(resource::resource& pool, ground const& here, unsigned depth) {
    if (home_.kind == driver::memory_kind::device) return pool;
    std::size_t const node = register_node("other flags", "direct", depth + 1, "");
    auto* const others = &built_->add(std::make_unique<resource::direct>(home_, node, *here.unpooled));
    unsigned const of_all =
        home_.kind == driver::memory_kind::host ? here.flags : static_cast<unsigned>(CU_MEM_ATTACH_GLOBAL);
    return built_->add(std::make_unique<resource::by_flags>(home_, 0, of_all, pool, *others));
  }

  // Each of its chains is built as one that serves what the fallback is asked for.
  void stack_fallback(option_reader const& options, site const& at, unsigned depth, need wanted,
                      ground& here) {
    std::vector<resource::fallback::branch> tops;
    std::vector<resource::fallback_source::branch> sources;
    auto const* chains = options.value<std::vector<std::vector<std::string>>>("chains");
    for (std::size_t i = 0; chains != nullptr && i < chains->size(); ++i) {
      std::size_t const node = register_node("chain " + std::to_string(i + 1), "chain", depth + 1, "");
      ground const made = stack_list((*chains)[i], depth + 2, wanted);
      tops.push_back({made.below, node});
      sources.push_back({made.segments, node});
      here.flags = i == 0 ? made.flags : here.flags & made.flags;
    }
    if (wanted.blocks) here.below = make_fallback(at, std::move(tops));
    if (wanted.segments) here.segments = here.unpooled = make_fallback(at, std::move(sources));
    here.lender = nullptr;
  }

  static driver::allocation_failed not_built(resource_plan const& r) {
    return driver::allocation_failed(CUDA_ERROR_NOT_SUPPORTED, r.name.c_str(),
                                     "this version cannot build it there");
  }

  // A request that meets only a driver is served one by one.
  void serve_blocks(ground& here, unsigned depth) {
    if (here.below != nullptr) return;
    std::size_t const node = register_node("direct", "direct", depth, "");
    here.below = &built_->add(std::make_unique<resource::direct>(home_, node, *here.segments));
  }

  std::unique_ptr<resource::binning> make_bins(option_reader const& options, std::size_t node, unsigned depth,
                                               ground here) {
    std::vector<bin> wanted;
    if (auto const* list = options.value<std::vector<bin>>("bins")) wanted = *list;
    std::vector<resource::binning::bin> bins;
    std::map<std::string, resource::resource*> shared;  // one resource may serve several bins
    resource::crossing* const ways = make_crossing(wanted, here);
    for (auto const& b : wanted) {
      if (b.to.empty()) {
        bins.push_back({b.max, &blocks_of_bin(b.max, depth + 1, here)});
        continue;
      }
      resource::resource*& to = shared[b.to];
      if (to == nullptr) to = &part_of_bin(find(b.to), depth + 1, here, ways);
      bins.push_back({b.max, to});
    }
    return std::make_unique<resource::binning>(home_, node, std::move(bins), *here.below);
  }

  // A driver and a fallback have memory of their own, the others that of the binning.
  resource::resource& part_of_bin(resource_plan const& r, unsigned depth, ground branch,
                                  resource::crossing* ways) {
    std::size_t const node = register_node(r, depth);
    if (shares_blocks(r)) {
      branch.below = &built_->add(ways->make_door());
    } else if (find_type(r.type)->part == role::driver) {
      branch.below = nullptr;
    }
    stack(r, node, depth, {}, branch);
    serve_blocks(branch, depth + 1);
    return *branch.below;
  }

  // These hand on blocks of the resource below the binning, as the binning itself does.
  static bool shares_blocks(resource_plan const& r) {
    return find_type(r.type)->part == role::adaptor && !cuts_segments(r.type);
  }
  resource::crossing* make_crossing(std::vector<bin> const& bins, ground& here) {
    bool const needed = std::any_of(bins.begin(), bins.end(),
                                    [&](bin const& b) { return !b.to.empty() && shares_blocks(find(b.to)); });
    if (!needed) return nullptr;
    auto* const made = &built_->add(std::make_unique<resource::crossing>(home_, *here.below));
    here.below = &built_->add(made->make_door());
    return made;
  }

  resource::resource& blocks_of_bin(std::uint64_t max, unsigned depth, ground const& here) {
    std::string const name = "bin " + std::string(base::print_bytes(max).view());
    std::size_t const node = register_node(name, "fixed_size", depth, "");
    resource::fixed_size_options const o{.block_size = max};
    auto& part = built_->add(std::make_unique<resource::fixed_size>(home_, node, o, *here.segments));
    prepared_.push_back(&part);
    if (here.lender != nullptr) here.lender->lends_to(part);
    return apart(part, here, depth);
  }

  plan const& plan_;
  route_plan const& route_;
  char const* const route_name_;
  resource::chain_context const& home_;
  std::unique_ptr<resource::chain> built_;
  std::vector<resource::suballocator*> prepared_;
  std::map<std::size_t, std::size_t> superblocks_;  // by the node of their arena
  std::uint64_t free_ = 0;                          // of the device, where a size is a share of it
  std::uint64_t total_ = stats::get(stats::gauges(home_.device).total);
};

std::unique_ptr<resource::chain> build(resource::chain_context const& home) {
  if (home.number >= route::kinds) {
    rule_plan const& rule = *chains_of_rules(*in_use).at(home.number - route::kinds);
    std::string const name = "rule " + std::to_string(&rule - in_use->rules.data() + 1);
    return construction(*in_use, rule.chain, name.c_str(), home).run();
  }
  constexpr char const* names[route::kinds] = {"device", "managed", "host"};
  char const* const name = names[home.number];
  route_plan const& route = in_use->route_of(name);
  if (route.passthrough || route.chain.empty()) return nullptr;
  return construction(*in_use, route, name, home).run();
}

}  // namespace

bool may_build_ahead(plan const& effective) noexcept try {
  if (effective.device.passthrough || !effective.rules.empty() || effective.free == free_mode::one_stream ||
      has_shares(effective, size_value::unit::percent_of_free))
    return false;
  auto const is_plain = [](resource_plan const& r) {
    auto const set = r.options.find("initial_pool_size");
    auto const* const initial = set != r.options.end() ? std::get_if<size_value>(&set->second) : nullptr;
    bool const takes =
        initial != nullptr && (initial->kind != size_value::unit::bytes || initial->bytes != 0);
    return (r.type == "pool" || r.type == "cuda") && !takes;
  };
  return std::ranges::all_of(effective.device.chain, [&](std::string const& name) {
    return is_plain(*effective.find(name, -1)) &&
           std::ranges::all_of(effective.devices,
                               [&](auto const& own) { return is_plain(*effective.find(name, own.first)); });
  });
} catch (std::bad_alloc const&) {  // of the names looked for
  return false;
}

route::chain_factory use_plan(plan const& effective) noexcept {
  in_use = &effective;
  return build;
}

}  // namespace gpumem::config
