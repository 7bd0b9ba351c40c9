// A thread cache: freed blocks kept whole, by exact size, for one thread (or one stream) of one
// suballocator. This is the hit path. (Not Bonwick's magazine of fixed size.) Blocks of one size wait in a
// queue: a thread's oldest first, so that the first tells whether any is done; a stream's newest first, as
// all may serve and the newest is in the processor's cache. The lock is biased to the thread, so that
// adding and taking cost a few dozen instructions; a flush by another thread pays for that. No driver call,
// no heap.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

#include "core/base/contract.hpp"
#include "core/base/threads/biased_lock.hpp"
#include "core/resource/pools/cache/churn_detector.hpp"
#include "core/resource/pools/cache/size_classes.hpp"
#include "core/space/blocks/block_table.hpp"
#include "core/stream_order/streams.hpp"

namespace gpumem::resource {

// What a search for one size found out about a magazine where it got no block. Plain fields, so that they
// stay in registers.
struct cache_look {
  bool done = false;            // it was looked into
  bool waits = false;           // such blocks are there, but none may serve yet
  space::epoch_id waiting = 0;  // the youngest's epoch
};

// Blocks of one size that no search was given, as their work may not be done.
struct waiting_blocks {
  std::uint32_t all = 0;
  std::uint32_t oldest = 0;  // of them, in the epoch of the first
};

// Of a block that is put where it serves again: it is nobody else's, and its `freed` is set.
struct always {
  constexpr bool operator()(space::block const&) const noexcept { return true; }
};

class alignas(64) magazine {
 public:
  // Takes the first block of exactly `units` if `may_serve(epoch)`. The block becomes live. `none`: `look`
  // says why. A block whose address is no multiple of `alignment` (0: any is) stays where it is.
  template <typename Predicate>
  space::handle take(space::block_table& blocks, std::uint32_t units, Predicate may_serve, cache_look& look,
                     std::uint32_t alignment = 0) noexcept {
    auto const held = lock_.lock();
    space::handle const h = take_first(blocks, units, may_serve, look, alignment);
    lock_.unlock(held);
    return h;
  }
  // The same without a call: `none` where there is nothing to take, and where the lock would cost one.
  template <typename Predicate>
  [[gnu::always_inline]] space::handle try_take(space::block_table& blocks, std::uint32_t units,
                                                Predicate may_serve, cache_look& look,
                                                std::uint32_t alignment = 0) noexcept {
    if (!lock_.lock_biased()) [[unlikely]]
      return space::none;
    space::handle const h = take_first(blocks, units, may_serve, look, alignment);
    lock_.unlock(base::biased_lock::hold::biased);
    return h;
  }

  // Keeps the cached block `h`, whose `freed` is set, or is by `is_still(b)`: asked where nobody visits, and
  // where it says no the block is not the caller's any more. What has to make room for it (the same size in
  // excess, another size in the same row) comes back as a list through `next`, usually empty, for the caller
  // to put elsewhere.
  template <typename Predicate = always>
  space::handle put(space::block_table& blocks, space::handle h, Predicate is_still = {}) noexcept {
    auto const held = lock_.lock();
    space::handle evicted = space::none;
    space::block& b = blocks[h];
    if (!is_still(b)) [[unlikely]] {
      lock_.unlock(held);
      return evicted;
    }
    if (!comes_back(b.units)) {
      b.next = space::none;
      evicted = h;
    } else if (!add(blocks, h, b)) {
      row& r = rows_[row_of(b.units)];
      evicted = r.head;
      bytes_ -= r.units * space::unit * r.count;
      r = {};
      add(blocks, h, b);
    }
    lock_.unlock(held);
    return evicted;
  }
  // The same of the block `b`, without a call. False where that cannot be: nothing was done.
  template <typename Predicate = always>
  [[gnu::always_inline]] bool put_at_once(space::block_table& blocks, space::handle h, space::block& b,
                                          Predicate is_still = {}) noexcept {
    if (!lock_.lock_biased()) [[unlikely]]
      return false;
    bool const added = is_still(b) && add(blocks, h, b);
    lock_.unlock(base::biased_lock::hold::biased);
    return added;
  }

  waiting_blocks waiting(space::block_table& blocks, std::uint32_t units) noexcept {
    auto const held = lock_.lock();
    row const& r = rows_[row_of(units)];
    waiting_blocks found;
    if (r.units == units && r.head != space::none) {
      found.all = r.count;
      space::epoch_id const first = blocks[r.head].freed;
      for (space::handle h = r.head; h != space::none && blocks[h].freed == first; h = blocks[h].next)
        ++found.oldest;
    }
    lock_.unlock(held);
    return found;
  }

  // For what is done to many magazines at once, with one barrier for all: announce each, then (if any wants
  // it) base::barrier_on_all_threads(), then enter each, look or empty, leave. By one thread at a time.
  bool announce() noexcept {
    lock_.announce();
    return lock_.biased_to_another();
  }
  void enter() noexcept {
    lock_.enter();
    visitor_.take();
  }
  void leave() noexcept {
    visitor_.leave();
    lock_.unlock(base::biased_lock::hold::visitor);
  }

  // Takes all blocks of at least `units` out, as one list through `next`. Between enter and leave.
  space::handle empty(space::block_table& blocks, std::uint32_t units = 0) noexcept {
    visitor_.expect_mine();
    space::handle all = space::none;
    if (bytes_ == 0) return all;
    // Rows of classes are in the order of their sizes.
    std::size_t const first = units == 0                      ? 0
                              : units > size_classes::largest ? size_classes::count
                                                              : size_classes::index_of(units);
    for (row& r : std::span(rows_).subspan(first)) {
      if (r.head == space::none || r.units < units) continue;
      blocks[r.tail].next = all;
      all = r.head;
      bytes_ -= r.units * space::unit * r.count;
      r = {};
    }
    return all;
  }
  // The same of the blocks whose epoch `goes`.
  template <typename Predicate>
  space::handle take_out(space::block_table& blocks, Predicate goes) noexcept {
    visitor_.expect_mine();
    space::handle all = space::none;
    if (bytes_ == 0) return all;
    for (row& r : rows_) {
      row stays{.units = r.units};
      for (space::handle h = r.head; h != space::none;) {
        space::handle const next = std::exchange(blocks[h].next, space::none);
        if (goes(blocks[h].freed)) {
          blocks[h].next = std::exchange(all, h);
          bytes_ -= blocks[h].bytes();
        } else {
          (stays.head == space::none ? stays.head : blocks[stays.tail].next) = h;
          stays.tail = h;
          ++stays.count;
        }
        h = next;
      }
      r = stays;
    }
    return all;
  }
  std::uint64_t bytes() const noexcept {
    visitor_.expect_mine();
    return bytes_;
  }
  // Adds up the blocks, and those that are not done. Between enter and leave.
  template <typename Predicate>
  void measure(space::block_table& blocks, Predicate is_done, std::uint64_t& all,
               std::uint64_t& pending) const noexcept {
    visitor_.expect_mine();
    std::uint64_t left = bytes_;
    for (row const& r : rows_) {
      if (left == 0) break;
      for (space::handle h = r.head; h != space::none; h = blocks[h].next) {
        std::uint64_t const bytes = blocks[h].bytes();
        all += bytes;
        left -= std::min(left, bytes);
        if (!is_done(blocks[h].freed)) pending += bytes;
      }
    }
  }
  // The thread that uses it from now on, the last one having ended.
  void belongs_to_this_thread() noexcept { lock_.bias_to_this_thread(); }

  // Enough frees of the epoch `open` lie here that an event for them is worth its price (0.3 us to 4 us).
  // Blocks too large to batch get one event each.
  bool worth_an_event(std::uint32_t open, std::uint32_t units) const noexcept {
    if (get(newest_) != open) return false;
    if (std::uint32_t const all = rotation_size(units); all != 0) return get(fresh_) >= all;
    std::uint64_t const enough = get(event_bytes_);
    return get(fresh_) >= frees_an_event || get(fresh_bytes_) >= enough ||
           (!waits_for_gpu() && 2 * space::unit * units > bytes_an_event);
  }

  // An event after so many bytes of frees: a request had to wait for the GPU. Later again where events are
  // done at once.
  void look_after(std::uint64_t bytes) noexcept { event_bytes_.store(bytes, std::memory_order_relaxed); }
  void look_later() noexcept {
    if (!waits_for_gpu()) [[likely]]
      return;
    std::uint64_t const now = get(event_bytes_);
    look_after(now < bytes_an_event ? std::min(2 * now + space::unit, bytes_an_event) : bytes_an_event);
  }
  // Requests wait for work of the GPU, so that events are no sign of a loop that does nothing else.
  bool waits_for_gpu() const noexcept { return get(event_bytes_) != bytes_an_event; }

  // From now on `count` blocks of this size take turns: an event comes only when all of them wait.
  void take_turns(std::uint32_t units, std::uint32_t count) noexcept {
    turn_units_.store(units, std::memory_order_relaxed);
    turn_count_.store(count, std::memory_order_relaxed);
  }
  // A request of this size that found none here. Of large sizes, a stream's blocks stay here from the second
  // in a row on: the others are worth more where they merge.
  void note_asked(std::uint32_t units) noexcept {
    if (stream == stream_order::no_slot || units <= size_classes::largest) return;
    auto& [last, again] = asked_[row_of(units) - size_classes::count];
    (get(last) == units ? again : last).store(units, std::memory_order_relaxed);
  }
  // Blocks of the size that do so; 0: it has no such rule.
  std::uint32_t rotation_size(std::uint32_t units) const noexcept {
    return get(turn_units_) == units ? get(turn_count_) : 0;
  }

  // Larger blocks are kept elsewhere from now on, but for those of each coarse size up to `largest`: one, and
  // more as long as they have no more than `of_a_size` units together. Between enter and leave.
  void keep_up_to(std::uint32_t units, std::uint32_t largest = 0, std::uint32_t of_a_size = 0) noexcept {
    coarse_up_to_.store(largest, std::memory_order_relaxed);
    of_a_coarse_size_.store(of_a_size, std::memory_order_relaxed);
    keeps_up_to_.store(units, std::memory_order_relaxed);
  }

  // Blocks that an event of now would settle.
  std::uint32_t fresh() const noexcept { return get(fresh_); }

  churn_detector events;
  space::handle emptied = space::none;  // on its way out of here; under the suballocator's mutex
  bool in_use = false;                  // by a thread; under the suballocator's mutex
  bool left_behind = false;             // by a thread that ended before the context began; the same
  stream_order::slot stream = stream_order::no_slot;  // whose frees these are; no_slot: a thread's

 private:
  // Blocks of one size, linked through `next`.
  struct row {
    std::uint32_t units = 0;
    std::uint32_t count = 0;
    space::handle head = space::none;
    space::handle tail = space::none;
  };
  static constexpr std::uint32_t most_of_a_size = 512;
  static constexpr std::uint64_t most_bytes = 4ull << 30;
  static constexpr std::uint32_t frees_an_event = 128;
  // Two such batches, one of them under way, stay below 256 MiB.
  static constexpr std::uint64_t bytes_an_event = 112ull << 20;
  static constexpr std::size_t shared_rows = 64;  // of large sizes
  static constexpr std::size_t row_count = size_classes::count + shared_rows;

  // Small sizes have a row to each class, large ones share the others.
  static std::size_t row_of(std::uint32_t units) noexcept {
    if (units <= size_classes::largest) return size_classes::index_of(units);
    return size_classes::count + ((units * 0x9e3779b1u) >> 26);
  }

  // Blocks of this size may stay here.
  bool comes_back(std::uint32_t units) const noexcept {
    if (units > get(keeps_up_to_)) [[unlikely]]
      return is_one_of_few(units);
    return units <= size_classes::largest || stream == stream_order::no_slot ||
           get(asked_[row_of(units) - size_classes::count].again) == units;
  }

  [[gnu::noinline]] bool is_one_of_few(std::uint32_t units) const noexcept {
    std::uint32_t const there = rows_[row_of(units)].count;
    return units <= get(coarse_up_to_) && size_classes::is_coarse(units) &&
           (there == 0 || (there + 1) * units <= get(of_a_coarse_size_));
  }

  template <typename Predicate>
  [[gnu::always_inline]] space::handle take_first(space::block_table& blocks, std::uint32_t units,
                                                  Predicate may_serve, cache_look& look,
                                                  std::uint32_t alignment) noexcept {
    look.done = true;
    row& r = rows_[row_of(units)];
    if (r.units != units || r.head == space::none) [[unlikely]]
      return space::none;
    space::handle const h = r.head;
    space::block& b = blocks[h];
    if (alignment != 0 && (b.begin() & (alignment - 1)) != 0) [[unlikely]]
      return space::none;
    if (!may_serve(b.freed)) [[unlikely]] {
      look.waits = true;
      look.waiting = blocks[r.tail].freed;
      return space::none;
    }
    r.head = b.next;
    --r.count;
    bytes_ -= b.bytes();
    b.rounding = 0;
    b.now.store(space::state::live, std::memory_order_release);  // the address before it (recent_blocks)
    return h;
  }

  // False where others would have to make room for it.
  [[gnu::always_inline]] bool add(space::block_table& blocks, space::handle h, space::block& b) noexcept {
    std::uint32_t const units = b.units;
    if (!comes_back(units)) [[unlikely]]
      return false;
    std::uint64_t const bytes = units * space::unit;
    row& r = rows_[row_of(units)];
    b.next = space::none;
    if (r.head == space::none) {
      r.units = units;
      r.head = r.tail = h;
    } else if (r.units != units || r.count >= most_of_a_size || bytes_ + bytes > most_bytes) [[unlikely]] {
      return false;
    } else if (stream != stream_order::no_slot) {
      b.next = r.head;
      r.head = h;
    } else {
      blocks[r.tail].next = h;
      r.tail = h;
    }
    ++r.count;
    bytes_ += bytes;
    if (stream == stream_order::no_slot) note_fresh(b.freed, bytes);
    return true;
  }

  // Counts a block that was freed in the newest epoch.
  [[gnu::always_inline]] void note_fresh(space::epoch_id freed, std::uint64_t bytes) noexcept {
    if (freed == get(newest_)) [[likely]] {
      fresh_.store(get(fresh_) + 1, std::memory_order_relaxed);
      fresh_bytes_.store(get(fresh_bytes_) + bytes, std::memory_order_relaxed);
    } else {
      newest_.store(freed, std::memory_order_relaxed);
      fresh_.store(1, std::memory_order_relaxed);
      fresh_bytes_.store(bytes, std::memory_order_relaxed);
    }
  }

  // Written under the lock, read without it by whoever shares this magazine: a guess may be old.
  template <typename Value>
  static Value get(std::atomic<Value> const& of) noexcept {
    return of.load(std::memory_order_relaxed);
  }

  base::biased_lock lock_;
  [[no_unique_address]] base::contract_owner visitor_;
  // Of a thread's magazine: the epoch of the newest block; blocks and bytes of that epoch that lie here.
  std::atomic<std::uint32_t> newest_{0};
  std::atomic<std::uint32_t> fresh_{0};
  std::atomic<std::uint64_t> fresh_bytes_{0};
  std::atomic<std::uint64_t> event_bytes_{bytes_an_event};
  std::atomic<std::uint32_t> turn_units_{0};  // the size whose blocks take turns, and how many
  std::atomic<std::uint32_t> turn_count_{0};
  // Of a shared row: the size asked for last, and the one that was so twice in a row.
  struct asked {
    std::atomic<std::uint32_t> last{0};
    std::atomic<std::uint32_t> again{0};
  };
  std::array<asked, shared_rows> asked_{};
  std::atomic<std::uint32_t> keeps_up_to_{~0u};  // units
  std::atomic<std::uint32_t> coarse_up_to_{0};
  std::atomic<std::uint32_t> of_a_coarse_size_{0};
  std::uint64_t bytes_ = 0;
  std::array<row, row_count> rows_{};
};

}  // namespace gpumem::resource
