// See builder.hpp.
#include "config/builder.hpp"

#include <algorithm>
#include <bit>

#include "core/base/bytes.hpp"
#include "core/resource/binning.hpp"
#include "core/resource/chain.hpp"
#include "core/resource/direct.hpp"
#include "core/resource/fixed_size.hpp"
#include "core/resource/pool.hpp"
#include "core/stats/state_page.hpp"
#include "core/upstream/cuda.hpp"
#include "core/upstream/cuda_async.hpp"

namespace gpumem::config {

namespace {

plan const* in_use = nullptr;

// Where in the chain the construction stands, bottom up: what is below as a resource and as a source of
// segments.
struct ground {
  resource::resource* below = nullptr;  // null: nothing serves blocks here yet
  resource::source* segments = nullptr;
  std::size_t driver_node = 0;
};

class construction {
 public:
  construction(plan const& effective, route_plan const& route, char const* route_name,
               resource::habitat const& home)
      : plan_(effective),
        route_(route),
        route_name_(route_name),
        home_(home),
        built_(std::make_unique<resource::chain>()) {
    std::size_t free_bytes = 0;
    std::size_t total = 0;
    driver::real.cuMemGetInfo_v2(&free_bytes, &total);
    free_ = free_bytes;
    total_ = total;
  }

  std::unique_ptr<resource::chain> run() {
    // Nodes are registered top first: that is the order of the report.
    std::vector<std::size_t> nodes;
    unsigned depth = 0;
    for (auto const& name : route_.chain) nodes.push_back(node(find(name), depth++));
    ground here;
    for (std::size_t i = route_.chain.size(); i-- > 0;)
      stack(find(route_.chain[i]), nodes[i], static_cast<unsigned>(i), here);
    if (here.below == nullptr) blocks_of(here, depth);
    for (auto* part : prepared_) part->prepare();
    return std::move(built_);
  }

 private:
  resource_plan const& find(std::string const& name) const { return *plan_.find(name, home_.device); }

  std::size_t node(resource_plan const& r, unsigned depth) const {
    std::string options;
    for (auto const& [key, value] : r.options) {
      auto const* text = std::get_if<std::string>(&value);
      if (std::holds_alternative<size_value>(value)) {
        if (bytes(r, key.c_str(), 0) == 0) continue;
        options += (options.empty() ? "" : ", ") + key + " ";
        options += base::print_bytes(bytes(r, key.c_str(), 0)).view();
      } else if (text != nullptr && *text != "max" && *text != "auto") {
        options += (options.empty() ? "" : ", ") + key + " " + *text;
      }
    }
    return stats::register_node(r.name, r.type, depth, home_.device, route_name_, options);
  }

  std::uint64_t bytes(resource_plan const& r, char const* key, std::uint64_t preset) const {
    auto const found = r.options.find(key);
    if (found == r.options.end()) return preset;
    if (auto const* size = std::get_if<size_value>(&found->second)) return size->resolve(free_, total_);
    return preset;  // "max", "auto"
  }
  static std::int64_t number(resource_plan const& r, char const* key, std::int64_t preset) {
    auto const found = r.options.find(key);
    auto const* value = found == r.options.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
    return value != nullptr ? *value : preset;
  }
  static std::string word(resource_plan const& r, char const* key) {
    auto const found = r.options.find(key);
    auto const* value = found == r.options.end() ? nullptr : std::get_if<std::string>(&found->second);
    return value != nullptr ? *value : std::string();
  }

  // Puts one resource of the route on what is built so far.
  void stack(resource_plan const& r, std::size_t at, unsigned depth, ground& here) {
    if (r.type == "binning") {
      blocks_of(here, depth + 1);
      here.below = &built_->add(make_bins(r, at, depth, here));
    } else if (auto* segments = driver_source(r, at)) {
      here.segments = segments;
    } else {
      resource::suballocator& part = cut(r, at, here);
      here.below = &part;
      here.segments = &part;
    }
  }

  // A request that meets only a driver is served one by one.
  void blocks_of(ground& here, unsigned depth) {
    if (here.below != nullptr) return;
    std::size_t const at = stats::register_node("direct", "direct", depth, home_.device, route_name_, "");
    here.below = &built_->add(std::make_unique<resource::direct>(home_, at, *here.segments));
  }

  resource::source* driver_source(resource_plan const& r, std::size_t at) {
    if (r.type == "cuda") return &built_->add_source(std::make_unique<upstream::cuda>(home_, at));
    if (r.type == "managed") return &built_->add_source(std::make_unique<upstream::managed>(home_, at));
    if (r.type == "pinned_host") {
      return &built_->add_source(
          std::make_unique<upstream::pinned_host>(home_, at, upstream::pinned_host::options{}));
    }
    if (r.type != "cuda_async") return nullptr;
    upstream::cuda_async::options const o{
        .initial_pool_size = bytes(r, "initial_pool_size", 0),
        .release_threshold = bytes(r, "release_threshold", ~std::uint64_t{0}),
        .own_pool = word(r, "pool") != "default"};
    return &built_->add_source(std::make_unique<upstream::cuda_async>(home_, at, o));
  }

  // pool or fixed_size over the segments below.
  resource::suballocator& cut(resource_plan const& r, std::size_t at, ground const& here) {
    if (r.type == "fixed_size") {
      return fixed(
          {.block_size = bytes(r, "block_size", 1ull << 20),
           .blocks_to_preallocate = static_cast<std::uint64_t>(number(r, "blocks_to_preallocate", 0))},
          at, here);
    }
    resource::pool_options const o{.initial_pool_size = bytes(r, "initial_pool_size", 0),
                                   .maximum_pool_size = bytes(r, "maximum_pool_size", ~std::uint64_t{0}),
                                   .growth = bytes(r, "growth", 0),
                                   .release_threshold = bytes(r, "release_threshold", ~std::uint64_t{0}),
                                   .plenty = total_ / 4 * 3};
    auto& part = built_->add(std::make_unique<resource::pool>(home_, at, o, *here.segments));
    prepared_.push_back(&part);
    return part;
  }
  resource::suballocator& fixed(resource::fixed_size_options const& o, std::size_t at, ground const& here) {
    auto& part = built_->add(std::make_unique<resource::fixed_size>(home_, at, o, *here.segments));
    prepared_.push_back(&part);
    return part;
  }

  std::unique_ptr<resource::binning> make_bins(resource_plan const& r, std::size_t at, unsigned depth,
                                               ground const& here) {
    std::vector<bin> wanted;
    if (auto const found = r.options.find("bins"); found != r.options.end()) {
      if (auto const* list = std::get_if<std::vector<bin>>(&found->second)) wanted = *list;
    }
    if (wanted.empty()) {
      for (auto e = number(r, "min_size_exponent", 18); e <= number(r, "max_size_exponent", 22); ++e) {
        wanted.push_back({std::uint64_t{1} << e, ""});
      }
    }
    std::vector<resource::binning::bin> bins;
    std::map<std::string, resource::resource*> shared;  // one resource may serve several bins
    for (auto const& b : wanted) {
      if (b.to.empty()) {
        std::string const name = "bin " + std::string(base::print_bytes(b.max).view());
        std::size_t const n =
            stats::register_node(name, "fixed_size", depth + 1, home_.device, route_name_, "");
        bins.push_back({b.max, &fixed({.block_size = b.max}, n, here)});
        continue;
      }
      resource::resource*& to = shared[b.to];
      if (to == nullptr) {
        ground branch = here;
        resource_plan const& target = find(b.to);
        stack(target, node(target, depth + 1), depth + 1, branch);
        to = branch.below;
      }
      bins.push_back({b.max, to});
    }
    return std::make_unique<resource::binning>(home_, at, std::move(bins), *here.below);
  }

  plan const& plan_;
  route_plan const& route_;
  char const* const route_name_;
  resource::habitat const& home_;
  std::unique_ptr<resource::chain> built_;
  std::vector<resource::suballocator*> prepared_;
  std::uint64_t free_ = 0;
  std::uint64_t total_ = 0;
};

std::unique_ptr<resource::chain> build(resource::habitat const& home) {
  auto const kind = home.kind;
  route_plan const& route = kind == driver::memory_kind::host      ? in_use->host
                            : kind == driver::memory_kind::managed ? in_use->managed
                                                                   : in_use->device;
  if (route.passthrough || route.chain.empty()) return nullptr;
  char const* const name = kind == driver::memory_kind::host      ? "host"
                           : kind == driver::memory_kind::managed ? "managed"
                                                                  : "device";
  return construction(*in_use, route, name, home).run();
}

}  // namespace

route::chain_factory use_plan(plan const& effective) noexcept {
  in_use = &effective;
  return build;
}

}  // namespace gpumem::config
