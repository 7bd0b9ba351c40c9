// Freed blocks of large sizes that the threads of a suballocator share while they wait for its mutex: bins by
// size, four in each doubling, with a lock each. What a bin has serves a request without the mutex and stays
// whole; a bin's oldest block is looked at first, as in a magazine. So coarse that every size is asked for
// all the time: many exact sizes would each hold memory that no other one gets. Any thread; no driver call,
// no heap.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "core/base/threads/processor_hints.hpp"
#include "core/resource/pools/cache/magazine.hpp"
#include "core/space/blocks/spin_lock.hpp"

namespace gpumem::resource {

class shared_bins {
 public:
  // Units: sizes above 256 KiB, up to 64 MiB.
  static constexpr std::uint32_t above = 512, up_to = 131'072;

  static constexpr bool has_bin(std::uint32_t units) noexcept { return units > above && units <= up_to; }
  // Of the block for a request of `units`, which has a bin: at most a quarter more.
  static constexpr std::uint32_t round_up(std::uint32_t units) noexcept {
    std::uint32_t const step = size_classes::coarse_step(units);
    return (units + step - 1) / step * step;
  }

  // The oldest block of exactly `units` if `may_serve(epoch)`; it becomes live. `none`: `look` says why.
  template <typename Predicate>
  space::handle take(space::block_table& blocks, std::uint32_t units, Predicate may_serve, cache_look& look,
                     std::uint32_t alignment) noexcept {
    bin& from = bins_[index_of(units)];
    base::prefetch_to_write(&from);  // most have a block, and another thread was here last
    if (from.count.load(std::memory_order_relaxed) == 0) return space::none;
    std::lock_guard const held(from.lock);
    bool const is_near = from.has_near != 0;
    space::handle const h = is_near ? from.near[from.first_near] : from.head;
    if (h == space::none) return space::none;
    space::block& b = blocks[h];
    base::prefetch_to_write(&b);
    if (alignment != 0 && (b.begin() & (alignment - 1)) != 0) return space::none;
    if (!may_serve(b.freed)) {
      look.waits = true;
      look.waiting = b.freed;
      return space::none;
    }
    if (is_near)
      from.drop_near();
    else
      from.head = b.next;
    from.count.store(from.count.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    b.rounding = 0;
    b.now.store(space::state::live, std::memory_order_release);  // the address before it (recent_blocks)
    return h;
  }
  // Keeps the cached block `h`, whose `freed` is set. False: it has no bin of its size. `is_still`: as in a
  // magazine.
  template <typename Predicate = always>
  bool put(space::block_table& blocks, space::handle h, Predicate is_still = {}) noexcept {
    space::block& b = blocks[h];
    if (!has_bin(b.units) || round_up(b.units) != b.units) return false;
    bin& to = bins_[index_of(b.units)];
    if (!are_used_.load(std::memory_order_relaxed)) are_used_.store(true, std::memory_order_relaxed);
    std::lock_guard const held(to.lock);
    if (!is_still(b)) [[unlikely]]
      return true;
    b.next = space::none;
    if (to.head == space::none && to.has_near < bin::most_near) {
      to.near[(to.first_near + to.has_near++) % bin::most_near] = h;
    } else {
      (to.head == space::none ? to.head : blocks[to.tail].next) = h;
      to.tail = h;
    }
    to.count.store(to.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return true;
  }

  // Its blocks went with their context. Looks at each bin under its lock: whoever is about to put a block
  // there has not counted it yet.
  void forget() noexcept {
    for (bin& each : bins_) {
      std::lock_guard const held(each.lock);
      each.has_near = 0;
      each.head = space::none;
      each.count.store(0, std::memory_order_relaxed);
    }
  }
  // All blocks, as one list through `next`.
  space::handle empty(space::block_table& blocks) noexcept {
    space::handle all = space::none;
    if (!are_used_.load(std::memory_order_relaxed)) return all;
    for (bin& each : bins_) {
      if (each.count.load(std::memory_order_relaxed) == 0) continue;
      std::lock_guard const held(each.lock);
      for (; each.has_near != 0; each.drop_near()) {
        space::handle const h = each.near[each.first_near];
        blocks[h].next = all;
        all = h;
      }
      if (each.head != space::none) {
        blocks[each.tail].next = all;
        all = std::exchange(each.head, space::none);
      }
      each.count.store(0, std::memory_order_relaxed);
    }
    return all;
  }
  // Adds up the blocks, and those that are not done. Not of a bin that somebody holds: an exit may have
  // stopped that thread.
  template <typename Predicate>
  void measure(space::block_table& blocks, Predicate is_done, std::uint64_t& all,
               std::uint64_t& pending) noexcept {
    if (!are_used_.load(std::memory_order_relaxed)) return;
    for (bin& each : bins_) {
      std::unique_lock const held(each.lock, std::try_to_lock);
      if (!held.owns_lock()) continue;
      auto const add = [&](space::handle h) {
        all += blocks[h].bytes();
        if (!is_done(blocks[h].freed)) pending += blocks[h].bytes();
      };
      for (std::uint32_t i = 0; i < each.has_near; ++i)
        add(each.near[(each.first_near + i) % bin::most_near]);
      for (space::handle h = each.head; h != space::none; h = blocks[h].next) add(h);
    }
  }
  // As of a moment ago.
  std::uint64_t bytes() const noexcept {
    std::uint64_t sum = 0;
    if (!are_used_.load(std::memory_order_relaxed)) return sum;
    for (std::size_t i = 0; i < bins_.size(); ++i)
      sum += bins_[i].count.load(std::memory_order_relaxed) * units_of(i) * space::unit;
    return sum;
  }

 private:
  // The oldest lie in its own line, as long as there is room: a list goes through lines of blocks that other
  // threads had last.
  struct alignas(64) bin {
    static constexpr std::uint8_t most_near = 12;
    space::spin_lock lock;
    std::uint8_t first_near = 0;
    std::uint8_t has_near = 0;
    std::atomic<std::uint32_t> count{0};  // written under the lock
    space::handle head = space::none;     // of the younger ones, linked through `next`
    space::handle tail = space::none;
    std::array<space::handle, most_near> near{};

    void drop_near() noexcept {
      first_near = static_cast<std::uint8_t>((first_near + 1) % most_near);
      --has_near;
    }
  };
  static_assert(sizeof(bin) == 64);

  static constexpr std::size_t index_of(std::uint32_t units) noexcept {
    std::uint32_t const n = size_classes::detail::doubling(units);
    return 4 * (n - 9) + (units - 1 - (1u << n)) / size_classes::coarse_step(units);
  }
  static constexpr std::uint64_t units_of(std::size_t index) noexcept {
    std::uint64_t const power = std::uint64_t{1} << (index / 4 + 9);
    return power + power / 4 * (index % 4 + 1);
  }

  std::array<bin, 32> bins_{};
  // Any block was ever put: in most pools none is, whose bins are then 32 lines of memory that nobody looks
  // at.
  std::atomic<bool> are_used_{false};
};

}  // namespace gpumem::resource
