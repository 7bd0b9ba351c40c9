// The caches of one suballocator: a magazine for each thread that frees without a stream, and one for each
// stream. Made when one is first needed; a thread's goes to the next new thread when it ends. Finding one
// takes no lock. Visiting them does: the suballocator's mutex, which is also the one for their list. Any
// thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/mutant.hpp"
#include "core/base/threads/adaptive_mutex.hpp"
#include "core/resource/pools/cache/magazine.hpp"
#include "core/resource/pools/cache/thread_slots.hpp"

namespace gpumem::resource {

class cache_set {
 public:
  // `one_for_all`: all threads share one magazine. The mutex outlives this.
  cache_set(base::adaptive_mutex& mutex, bool one_for_all) noexcept;
  ~cache_set();
  cache_set(cache_set const&) = delete;

  // This thread's magazine, or the stream's. Null: not made yet, or none can be. Of a thread it stays the
  // same.
  magazine* find(stream_order::slot s) const noexcept {
    if (s == stream_order::no_slot) {
      auto const& entry = own_slots->entries[index_];
      if (entry.owner == this) [[likely]]
        return entry.own;
      if (!one_for_all_) return nullptr;
    }
    return by_stream_[place_of(s)].load(std::memory_order_acquire);
  }
  // The same, made where there is none; null: no memory, or no place for one. Takes the mutex to make it.
  magazine* find_or_make(stream_order::slot s) noexcept;
  // The magazine of the stream alone; null: there is none.
  magazine* of_stream(stream_order::slot s) const noexcept {
    return by_stream_[s].load(std::memory_order_acquire);
  }

  // Magazines there are; under the mutex.
  std::size_t made() const noexcept { return made_.size(); }
  // Those that the context may use: all that were made, but those that others left behind before it
  // (begin_again), of streams whose slots are not below `slots` and of threads that had ended. Under the
  // mutex.
  std::size_t count(stream_order::slot slots) const noexcept;
  // Another context is served from now on; under the mutex.
  void begin_again() noexcept {
    for (auto const& m : made_) m->left_behind = !m->in_use;
  }

  // In a forked child, which uses none of its parent's sets.
  static void forget_all() noexcept;

  // The thread of this magazine has ended: the next new thread may have it. Takes the mutex.
  void hand_back(magazine* m) noexcept;

  // Calls `visit` with each magazine (or with `only`), which nobody else uses meanwhile; under the mutex.
  template <typename Visit>
  void visit(Visit visit, magazine* only = nullptr) noexcept {
    bool others = false;
    for (auto const& m : made_) {
      if (only == nullptr || m.get() == only) others = m->announce() || others;
    }
    if (others) base::barrier_on_all_threads();
    for (auto const& m : made_) {
      if (only != nullptr && m.get() != only) continue;
      m->enter();
      visit(*m);
      m->leave();
    }
  }
  // Empties each (or `only`) of blocks of at least `units`, then calls `put` with whose frees they are and
  // the blocks, linked through `next`; under the mutex. The bytes that stay.
  template <typename Put>
  std::uint64_t empty(space::block_table& blocks, magazine* only, Put put, std::uint32_t units = 0) noexcept {
    std::uint64_t stay = 0;
    visit(
        [&](magazine& m) {
          m.emptied = m.empty(blocks, units);
          stay += m.bytes();
        },
        only);
    for (auto const& m : made_) {
      if (only == nullptr || m.get() == only) put(m->stream, std::exchange(m->emptied, space::none));
    }
    return stay;
  }
  // Blocks of more units stay in no magazine from now on, but for one of each coarse size up to 16 MiB, or 3
  // MiB of it; fewer where there are many magazines. Those that are there stay. Under the mutex.
  void keep_up_to(std::uint32_t units) noexcept {
    keeps_up_to_ = units;
    visit([this](magazine& m) { limit(m); });
  }
  // The same of the blocks of each whose epoch `goes`; the bytes that stay.
  template <typename Predicate, typename Put>
  std::uint64_t sweep(space::block_table& blocks, Predicate goes, Put put) noexcept {
    std::uint64_t stay = 0;
    visit([&](magazine& m) {
      m.emptied = m.take_out(blocks, goes);
      stay += m.bytes();
    });
    for (auto const& m : made_) {
      if (m->emptied != space::none) put(m->stream, std::exchange(m->emptied, space::none));
    }
    return stay;
  }

 private:
  static stream_order::slot place_of(stream_order::slot s) noexcept {
    return GPUMEM_MUTANT(shared_magazine) ? static_cast<stream_order::slot>(1 + s % 2) : s;
  }
  // For the calling thread, or a stream: one that nobody uses, or a new one. Null: no memory, or no index
  // left.
  magazine* make_for_thread() noexcept;
  magazine* make_for_stream(stream_order::slot s) noexcept;
  // With one of each coarse size all magazines have 1 GiB at most, and with several of the smaller ones half
  // as much again.
  void limit(magazine& m) const noexcept {
    constexpr std::uint64_t largest = 16ull << 20,
                            of_all = 160ull << 20;  // such sizes add up to 6.2 of the last
    constexpr std::uint64_t of_a_size = 3ull << 20;
    constexpr std::size_t few = 20;
    std::uint64_t const up_to = std::bit_floor(std::min(largest, of_all / made_.size()));
    m.keep_up_to(keeps_up_to_, static_cast<std::uint32_t>(up_to / space::unit),
                 made_.size() <= few ? of_a_size / space::unit : 0);
  }
  // A new one, in use; null: no memory. Under the mutex.
  magazine* add() noexcept;

  base::adaptive_mutex& mutex_;
  bool const one_for_all_;
  std::size_t const index_;  // in thread_slots; thread_slots::most: none
  std::uint32_t keeps_up_to_ = ~0u;
  std::vector<std::unique_ptr<magazine>> made_;  // of threads and of streams
  std::array<std::atomic<magazine*>, stream_order::most_slots> by_stream_{};
};

}  // namespace gpumem::resource
