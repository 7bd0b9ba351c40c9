// See traps.hpp. One small function for each kind of trap.
#include "shim/cli/check/traps.hpp"

#include <algorithm>

#include "config/schema/schema.hpp"
#include "core/base/text/bytes.hpp"
#include "shim/cli/check/chain_walk.hpp"
#include "shim/cli/check/start_memory.hpp"

namespace gpumem::cli {
namespace {

constexpr std::uint64_t unset = ~std::uint64_t{0};

std::string shown(std::uint64_t bytes) {
  return std::string(base::print_exact_bytes(bytes).view());
}
std::string rounded(std::uint64_t bytes) {
  return std::string(base::print_bytes(bytes).view());
}
std::string quoted(std::string const& name) {
  return "\"" + name + "\"";
}

template <typename Value>
bool holds(config::resource_plan const& r, char const* key, Value const& wanted) {
  auto const found = r.options.find(key);
  auto const* const value = found == r.options.end() ? nullptr : std::get_if<Value>(&found->second);
  return value != nullptr && *value == wanted;
}

bool is(config::resource_plan const& r, std::string_view trait) {
  auto const* const type = config::find_type(r.type);
  return type != nullptr && type->is(trait);
}

class search {
 public:
  search(config::plan const& plan, device const& on) : plan_(plan), on_(on) {}

  std::vector<trap> run() {
    for (auto const& chain : chains_of(plan_, on_)) {
      walk(plan_, *chain.names, on_.number, [&](config::resource_plan const& resource, position const& at) {
        pools(resource, at);
        blocks(resource, at, chain.largest);
        limits(resource);
        bounds(resource, at);
        drivers(resource, at);
        debugging(resource);
      });
    }
    rules();
    start();
    return std::move(found_);
  }

 private:
  void add(std::string what, std::string remedy) {
    bool const known =
        std::any_of(found_.begin(), found_.end(), [&](trap const& t) { return t.what == what; });
    if (!known) found_.push_back({std::move(what), std::move(remedy)});
  }

  template <typename Wanted>
  config::resource_plan const* below(position const& at, Wanted const& wanted) const {
    for (std::size_t i = at.index + 1; i < at.names.size(); ++i) {
      auto const* const found = plan_.find(at.names[i], on_.number);
      if (found != nullptr && wanted(*found)) return found;
    }
    return nullptr;
  }

  void pools(config::resource_plan const& r, position const& at) {
    if (r.type == "pool" || r.type == "arena") {
      auto const* const pool = below(at, [](auto const& one) { return one.type == "pool"; });
      // In the chain itself a pool over a pool is warning W502.
      if (pool != nullptr && pool->name != r.name && (r.type == "arena" || at.of_bin)) {
        add(quoted(r.name) + " draws from the pool " + quoted(pool->name),
            "what one of them caches the other cannot use; one of them is enough, unless the upper one has a "
            "limit");
      }
      auto const* const driver = below(at, [](auto const& one) { return is(one, "caches"); });
      if (driver != nullptr && pool == nullptr) {
        add(quoted(r.name) + " draws from the driver's pool " + quoted(driver->name),
            std::string("memory is cached twice; over ") +
                (is(*driver, "managed") ? "\"managed\"" : "\"cuda\"") + " it is cached once");
      }
    }
    if (r.type != "pool") return;
    std::uint64_t const initial = bytes_of(r, "initial_pool_size", on_, 0);
    std::uint64_t const maximum = bytes_of(r, "maximum_pool_size", on_, unset);
    if (initial > maximum) {
      add(quoted(r.name) + " begins with " + rounded(initial) + ", more than its maximum of " +
              rounded(maximum),
          "it takes that much all the same, and cannot grow then: lower initial_pool_size, or raise the "
          "maximum");
    }
  }

  void blocks(config::resource_plan const& r, position const& at, std::uint64_t largest) {
    if (r.type == "fixed_size") {
      std::uint64_t const block = bytes_of(r, "block_size", on_, 0);
      if (at.of_bin && !holds(r, "blocks_to_preallocate", std::int64_t{0})) {
        add("the bin " + quoted(r.name) + " takes its blocks before anyone asks",
            "leave blocks_to_preallocate out: the bin grows by itself");
      }
      if (!at.of_bin && largest > block) {
        add(quoted(r.name) + " refuses every request above " + shown(block) + " as out of memory",
            "make it a bin of a binning, which sends larger requests on");
      }
    }
    auto const* const bins = bins_of(r);
    for (std::size_t i = 0; bins != nullptr && i < bins->size(); ++i) {
      config::resource_plan const* const to = plan_.find((*bins)[i].to, on_.number);
      if (to == nullptr) continue;
      for (char const* key : {"maximum_pool_size", "arena_size", "allocation_limit"}) {
        std::uint64_t const limit = bytes_of(*to, key, on_, unset);
        if (limit < (*bins)[i].max) {
          add("requests of up to " + shown((*bins)[i].max) + " go to " + quoted(to->name) + ", whose " + key +
                  " is " + rounded(limit),
              "lower the bin's max, or raise " + std::string(key));
        }
      }
    }
  }

  void limits(config::resource_plan const& r) {
    if (on_.total == 0) return;
    for (char const* key : {"maximum_pool_size", "arena_size", "allocation_limit"}) {
      std::uint64_t const limit = bytes_of(r, key, on_, 0);
      if (limit > on_.total) {
        add(key + std::string(" of ") + quoted(r.name) + ", " + rounded(limit) +
                ", is more than the device has, " + rounded(on_.total),
            "it never takes effect here: lower it, or leave it out");
      }
    }
  }

  // What a pool takes at start passes everything below it, and all that it serves everything above.
  void bounds(config::resource_plan const& r, position const& at) {
    std::uint64_t const initial = bytes_of(r, "initial_pool_size", on_, 0);
    if (initial == 0 || at.of_bin) return;
    for (std::size_t i = 0; i < at.names.size(); ++i) {
      auto const* const other = plan_.find(at.names[i], on_.number);
      if (other == nullptr || i == at.index) continue;
      for (std::string const key : {"allocation_limit", "maximum_pool_size", "arena_size", "block_size"}) {
        std::uint64_t const bound = bytes_of(*other, key.c_str(), on_, unset);
        if (bound >= initial || (i < at.index && key == "block_size")) continue;
        std::string const begins = quoted(r.name) + " begins with " + rounded(initial) + ", but the " + key +
                                   " of " + quoted(other->name) + " is " + rounded(bound);
        if (i > at.index)
          add(begins,
              "such a chain is not built, and the driver serves its requests: lower initial_pool_size");
        else
          add(begins, "the rest can never be used: lower initial_pool_size");
      }
    }
  }

  void drivers(config::resource_plan const& r, position const& at) {
    if (is(r, "no_ipc")) {
      add("memory of " + quoted(r.name) + " cannot be exported by legacy IPC",
          "a program that shares memory between processes (cudaIpcGetMemHandle: torch.multiprocessing, MPI, "
          "NCCL "
          "without cuMem) needs \"cuda\" at the end of the chain, or a rule that leads those calls there");
    }
    if (std::uint64_t const range = bytes_of(r, "reserve", on_, unset); range < on_.total) {
      add("reserve of " + quoted(r.name) + ", " + rounded(range) + ", is less than the device has, " +
              rounded(on_.total),
          "memory beyond it is in another range, and blocks do not join across the two: leave reserve out");
    }
    if (r.type == "cuda_async" && holds(r, "pool", std::string("default"))) {
      add(quoted(r.name) + " uses the device's default pool, which other libraries use too",
          "they may change its release threshold; pool = \"own\" is gpumem's alone");
    }
    if (r.type == "cuda_async" && bytes_of(r, "release_threshold", on_, unset) == 0) {
      add(quoted(r.name) + " gives all it caches back to the device whenever a stream synchronises",
          "the next request maps memory anew: leave release_threshold out, unless other processes need it");
    }
    if (is(r, "managed") && at.of_fallback && at.branch > 0) {
      add("beyond the chains before it, requests are served by " + quoted(r.name) + " from managed memory",
          "where the device is full its pages move as they are touched, and only the host's memory bounds "
          "it; "
          "legacy IPC and GPUDirect do not take it: a \"limiting\" in that chain keeps it small");
    }
    if (r.type == "pinned_host" && holds(r, "write_combined", true)) {
      add("the host reads the memory of " + quoted(r.name) + " without its caches",
          "write_combined is for memory that the host only writes: leave it out otherwise");
    }
    auto const* const type = config::find_type(r.type);
    if (type != nullptr && !type->needs.empty()) {
      add(quoted(r.name) + " works only on " + std::string(type->needs),
          "elsewhere its chain is not built, and the driver serves these requests: \"managed\" works on all");
    }
  }

  void debugging(config::resource_plan const& r) {
    bool const flushes = r.type == "logging" && holds(r, "flush", true);
    if (r.type == "guard" || flushes) {
      add(quoted(r.name) + (flushes ? " writes each line at once" : " fills and checks every block"),
          flushes ? "that is slow: leave flush out, unless the end of the log is lost in a crash"
                  : "that is slow and for debugging: leave it out of runs that count");
    }
  }

  // An earlier rule that asks for less takes all that a later one could.
  void rules() {
    auto const covers = [](std::string const& wide, std::string const& narrow) {
      return wide.empty() || wide == "*" || wide == narrow;
    };
    for (std::size_t later = 1; later < plan_.rules.size(); ++later) {
      auto const& narrow = plan_.rules[later];
      for (std::size_t i = 0; i < later; ++i) {
        auto const& wide = plan_.rules[i];
        bool const all = wide.kind == narrow.kind && wide.name == narrow.name &&
                         covers(wide.library, narrow.library) && covers(wide.api, narrow.api) &&
                         wide.min_size.value_or(0) <= narrow.min_size.value_or(0) &&
                         wide.max_size.value_or(unset) >= narrow.max_size.value_or(unset) &&
                         (wide.device < 0 || wide.device == narrow.device);
        if (!all) continue;
        add("rule " + std::to_string(later + 1) + " is never reached: rule " + std::to_string(i + 1) +
                " takes all of its requests",
            "the first rule that matches wins: put the narrower one first");
        break;
      }
    }
  }

  void start() {
    start_memory const taken = memory_at_start(plan_, on_);
    if (on_.total != 0 && taken.device > on_.total) {
      add("the chains take " + rounded(taken.device) + " at start, more than the device has, " +
              rounded(on_.total),
          "a chain that cannot take its memory is not built, and the driver serves its requests: lower its "
          "initial_pool_size or blocks_to_preallocate");
    }
  }

  config::plan const& plan_;
  device const& on_;
  std::vector<trap> found_;
};

}  // namespace

std::vector<trap> find_traps(config::plan const& plan, device const& on) {
  return search(plan, on).run();
}

}  // namespace gpumem::cli
