// The counters of one thread, as they lie in the state page, and how to add to them on a hot path. A thread
// writes only its own shard, by a relaxed load and store: no read-modify-write, no shared cache line.
// Readers (report, live view, recovery of a killed process) add the shards up. Counters never go down.
// Called from every hook on every thread; never allocates, locks or makes a driver call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpumem::stats {

inline constexpr std::size_t max_hooks = 176;   // at least the number of lines of shim/symbols/symbols.def
inline constexpr std::size_t max_devices = 16;  // further devices share the last slot
// nodes of all chain instances; further ones share the last slot
inline constexpr std::size_t max_nodes = 96;
// Libraries that asked for memory, by stats::library_id. With the unknown one and the one for all further
// ones.
inline constexpr std::size_t max_libraries = 32;
// bucket of n bytes = bit width of n - 1, so <= 2^k falls in k
inline constexpr std::size_t size_buckets = 64;

struct hook_counters {
#define GPUMEM_HOOK_FIELD(name, unit, meaning) std::uint64_t name;
#include "core/stats/page/fields.def"
#undef GPUMEM_HOOK_FIELD
};

struct device_counters {
#define GPUMEM_DEVICE_FIELD(name, unit, meaning) std::uint64_t name;
#define GPUMEM_DEVICE_WORD(name) std::uint64_t name;
#include "core/stats/page/fields.def"
#undef GPUMEM_DEVICE_FIELD
};

struct node_counters {
#define GPUMEM_NODE_FIELD(name, unit, meaning) std::uint64_t name;
#include "core/stats/page/fields.def"
#undef GPUMEM_NODE_FIELD
};

struct device_gauges {
#define GPUMEM_DEVICE_GAUGE(name, unit, meaning) std::uint64_t name;
#include "core/stats/page/fields.def"
#undef GPUMEM_DEVICE_GAUGE
};

struct node_gauges {
#define GPUMEM_NODE_GAUGE(name, unit, meaning) std::uint64_t name;
#include "core/stats/page/fields.def"
#undef GPUMEM_NODE_GAUGE
};

struct size_bucket {
  std::uint64_t count;
  std::uint64_t bytes;
};

// What one library asked for of one device, by routed requests. Freed: by anyone, of what that library had
// asked for; also what ended with its context.
struct library_counters {
  std::uint64_t allocated;
  std::uint64_t freed;
};

// Where the counters of one library and device are; a block keeps it while the program has it.
using holder_place = std::uint32_t;
inline holder_place place_of(std::size_t device_slot, std::uint32_t library) noexcept {
  return static_cast<holder_place>(device_slot * max_libraries) + library;
}

// What samples counted for one call site and did not add to its entry yet: most threads allocate and free at
// few sites, and a counter that all threads write to would be a shared line.
struct site_tally {
  std::uint64_t site;  // stats::call_site; 0: none
  std::uint64_t allocations;
  std::uint64_t allocated_bytes;
  std::uint64_t frees;
  std::uint64_t freed_bytes;
};
inline constexpr std::size_t site_tallies = 8;  // of one thread, by the number of the site

inline constexpr std::size_t line_bytes = 64;  // of memory, which go from one core to another together

// One thread's counters. Plain integers, so that a reader can map the page; writers go through add().
struct alignas(line_bytes) shard {
  std::uint64_t owner;  // thread id of the present or last owner; 0: never used
  std::uint64_t unused[7];
  device_counters devices[max_devices];
  hook_counters hooks[max_hooks];
  node_counters nodes[max_nodes];
  size_bucket sizes[size_buckets];
  library_counters libraries[max_devices * max_libraries];  // by holder_place
  site_tally sites[site_tallies];
};
// A look at all threads (events/shard_sums.hpp) takes one line of each, and one that is hardly ever written.
static_assert(sizeof(device_counters) % line_bytes == 0 && offsetof(shard, devices) % line_bytes == 0);
static_assert(offsetof(device_counters, dealt_at) < line_bytes &&
              offsetof(device_counters, lost_requested) / line_bytes >
                  offsetof(device_counters, rung_waited) / line_bytes);

// Of any place, even one that is none: a program that frees an address again while another thread is about to
// get it there finds a block that is live already, and whose word is still an epoch.
inline library_counters& holder_at(shard& mine, holder_place place) noexcept {
  return mine.libraries[place % (max_devices * max_libraries)];
}

// Adds to a counter of this thread's own shard.
inline void add(std::uint64_t& counter, std::uint64_t amount) noexcept {
#if defined(__x86_64__) && !defined(GPUMEM_UNDER_TSAN)  // which sees no assembly
  // One instruction, without a lock: nobody else writes here, and readers see all of it or nothing. GCC
  // makes five of the form below, eighteen times in a pair of calls.
  asm("addq %1, %0" : "+m"(counter) : "er"(amount) : "cc");
#else
  std::atomic_ref<std::uint64_t> slot(counter);
  slot.store(slot.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
#endif
}

// Gauges are shared by all threads and written on slow paths only.
inline void set(std::uint64_t& gauge, std::uint64_t value) noexcept {
  std::atomic_ref<std::uint64_t>(gauge).store(value, std::memory_order_relaxed);
}
inline std::uint64_t get(std::uint64_t& counter) noexcept {
  return std::atomic_ref<std::uint64_t>(counter).load(std::memory_order_relaxed);
}

// This thread requested more of the device than it has leave for without a look at all others: see
// timeline.cpp.
inline bool must_settle(device_counters& mine) noexcept {
  std::uint64_t const requested = get(mine.allocated_requested) - get(mine.freed_requested);
  return static_cast<std::int64_t>(requested) > static_cast<std::int64_t>(get(mine.settles_at));
}
// A sampled byte lies in what it requested last: see callers/samples.hpp.
inline bool must_sample(device_counters& mine) noexcept {
  return get(mine.allocated_requested) >= get(mine.samples_at);
}
// At its next request on the device.
inline constexpr std::uint64_t settles_soon = std::uint64_t{1} << 63;
inline void settle_soon(device_counters& mine) noexcept {
  set(mine.settles_at, settles_soon);
}

inline std::size_t bucket_of(std::uint64_t bytes) noexcept {
  return static_cast<std::size_t>(63 - __builtin_clzll(2 * bytes - 1));  // sizes up to 2^63
}

// This thread's shard; null until its first use. Attaching may make system calls, once a thread.
extern constinit thread_local shard* own_shard;
shard& attach_shard() noexcept;  // never fails: falls back to a private page, then to a shared one
inline shard& local() noexcept {
  return own_shard != nullptr ? *own_shard : attach_shard();
}

}  // namespace gpumem::stats
