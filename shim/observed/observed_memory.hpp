// Bytes held by calls that are seen but not routed (arrays, pitched and pool memory, what a chain passed
// on). Kept by address or handle, so that the call that gives them back subtracts what was added. Called by
// hooks on any thread, never for a block of a chain; sharded, one short lock each. An entry is taken out
// before the real free: after it another thread may have the same key.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>

#include "core/base/threads/mutex.hpp"
#include "core/driver/context_id.hpp"
#include "core/route/limits.hpp"
#include "core/stats/page/in_use.hpp"

namespace gpumem::shim {

// What a key is: handles of different kinds may have equal values.
enum class observed_kind : std::uint8_t { address, array, mipmapped_array };

class observed_memory {
 public:
  // The one table of this process; never destroyed.
  static observed_memory& instance() noexcept;

  struct item {
    route::observed_bytes held;
    driver::named_context context;  // that takes it along at its end; null: it outlives every context
  };
  // False when there is no host memory to remember it: then it must not be counted either.
  bool add(observed_kind kind, std::uint64_t key, item const& held) noexcept;
  // Out of the table and off the ledger; nothing when it was never seen.
  std::optional<item> take(observed_kind kind, std::uint64_t key) noexcept;
  // A destroyed or reset context takes its memory along.
  void forget(driver::named_context const& gone) noexcept;
  // How often that was. Whoever adds for a call under way may be too late for the end of the context, which
  // looked before: then it is forgotten here. `since`: as the call began.
  static std::uint64_t ends() noexcept { return ends_.load(std::memory_order_acquire); }
  void forget_what_came_late(observed_kind kind, std::uint64_t key, driver::named_context const& of,
                             std::uint64_t since) noexcept {
    if (ends() != since && of.handle != nullptr) [[unlikely]]
      forget_if_ended(kind, key, of);
  }
  // A forked child holds nothing; the parent may have held a lock.
  void reset_in_child() noexcept;

 private:
  using table = std::map<std::uint64_t, item>;
  struct shard {
    base::mutex lock;
    std::array<table, 3> items GPUMEM_GUARDED_BY(lock);  // by observed_kind
    table::node_type spare GPUMEM_GUARDED_BY(lock);      // of what was taken last: a pair needs no heap
  };
  void forget_if_ended(observed_kind kind, std::uint64_t key, driver::named_context const& of) noexcept;
  // False: the key is there. Throws std::bad_alloc.
  bool insert(observed_kind kind, std::uint64_t key, item const& held);
  shard& of(std::uint64_t key) noexcept { return shards_[(key >> 9 ^ key >> 21) % shards_.size()]; }

  std::array<shard, 16> shards_;
  static inline constinit std::atomic<std::uint64_t> ends_{0};
};

// A call that takes what is given back under a key, from before the real call on.
class arrival {
 public:
  // It succeeded, and what it took is on the ledger: false where nobody remembers it, and it is to be taken
  // off.
  bool keep(observed_kind kind, std::uint64_t key, observed_memory::item const& held) const noexcept {
    auto& table = observed_memory::instance();
    if (!table.add(kind, key, held)) return false;
    table.forget_what_came_late(kind, key, held.context, since_);
    return true;
  }

 private:
  std::uint64_t const since_ = observed_memory::ends();
};

// A call that gives back `key`, from before the real call until its code is known: without done() all is as
// it was.
class departure {
 public:
  departure(observed_kind kind, std::uint64_t key) noexcept
      : kind_(kind), key_(key), leaving_(observed_memory::instance().take(kind, key)) {}
  ~departure();
  departure(departure const&) = delete;

  // The real call succeeded; bytes that it gave back, 0 when they were never seen.
  std::uint64_t done() noexcept;

 private:
  stats::memory_move const move_;
  observed_kind const kind_;
  std::uint64_t const key_;
  std::uint64_t const since_ = observed_memory::ends();
  std::optional<observed_memory::item> leaving_;
};

}  // namespace gpumem::shim
