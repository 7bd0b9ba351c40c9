// What state_page, shards and timeline share about this process's page. Private to core/stats.
// `active` is published with release when the page is complete; `lock` guards registrations and samples, is
// held for microseconds, and is reset in a forked child, where its holder may not exist.
#pragma once

#include <atomic>
#include <mutex>

#include "core/stats/page/file/page_file.hpp"
#include "core/stats/page/layout.hpp"

namespace gpumem::stats {

struct page_state {
  std::atomic<page*> active{nullptr};
  alignas(64) std::atomic_flag lock{};  // a line apart from what every thread reads
  std::atomic<bool> warned{false};
  page_file file{};
  held_file aside{};  // while an exec runs
};
extern constinit page_state state;

// Makes a part of the page safe to write; warns once when it is no longer in the file.
bool back_part(page& page, void const* part, std::size_t bytes) noexcept;

// Moves the counts of the static shard, from before the page existed, to `target`; forgets them when null.
void take_over_fallback(shard* target) noexcept;
// Makes this thread's next count attach anew.
void forget_own_shard() noexcept;

// Holds the page's lock for its life.
class locked {
 public:
  locked() noexcept;
  // Only if nobody has it.
  explicit locked(std::try_to_lock_t) noexcept
      : is_held_(!state.lock.test(std::memory_order_relaxed) &&
                 !state.lock.test_and_set(std::memory_order_acquire)) {}
  ~locked() {
    if (is_held_) state.lock.clear(std::memory_order_release);
  }
  locked(locked const&) = delete;
  locked& operator=(locked const&) = delete;
  bool owns_lock() const noexcept { return is_held_; }

 private:
  bool is_held_ = true;
};

// Around a change of gauges that are of one moment: readers without the lock, in this process or another,
// look again. Under the lock.
class gauge_change {
 public:
  explicit gauge_change(device_gauges& of) noexcept : number_(of.changes) {
    number_.fetch_add(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~gauge_change() { number_.fetch_add(1, std::memory_order_release); }
  gauge_change(gauge_change const&) = delete;
  gauge_change& operator=(gauge_change const&) = delete;

 private:
  std::atomic_ref<std::uint64_t> number_;
};

}  // namespace gpumem::stats
