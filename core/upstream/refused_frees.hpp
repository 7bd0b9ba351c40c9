// Memory that the driver refused to take back: in a host function of a stream nobody may free, nor while its
// context may be ending. It stays reserved until a later call of the upstream gives it back, or its context
// has ended; meanwhile it is a segment of `leaving`, so that a second free is refused, and not given to the
// driver, which would take it, and then take whatever lies there when the first one comes. Called on slow
// paths, from any thread.
#pragma once

#include <atomic>
#include <new>
#include <utility>
#include <vector>

#include "core/base/mutant.hpp"
#include "core/base/threads/mutex.hpp"
#include "core/resource/source.hpp"
#include "core/upstream/leaving.hpp"

namespace gpumem::upstream {

class refused_frees {
 public:
  explicit refused_frees(resource::chain_context const& home) noexcept : owner_(home) {}

  // `free(memory)` gives it back, or says false; `lost(memory)` hears of it where that was after forget().
  // Where the list finds no memory the block is lost.
  template <typename Free, typename Lost>
  void release(resource::extent const& memory, Free&& free, Lost&& lost) noexcept {
    if (!free(memory) && !keep(memory)) lost(memory);
  }
  template <typename Free, typename Lost>
  void retry(Free&& free, Lost&& lost) noexcept {
    if (bytes() == 0) return;
    for (waiting const& w : take(false)) {
      owner_.remove(w.segment);
      release(w.memory, free, lost);
    }
  }
  // The context is gone, and what waited with it. A thread may be on its way here with more.
  template <typename Lost>
  void forget(Lost&& lost) noexcept {
    for (waiting const& w : take(true)) {
      owner_.remove(w.segment);
      lost(w.memory);
    }
  }

  // Another context from now on.
  void begin_again() noexcept {
    base::lock_guard const held(mutex_);
    forgotten_ = false;
  }

  // Of all that waits.
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct waiting {
    resource::extent memory;
    space::segment* segment;  // null: there was no room for it
  };

  // False: after forget().
  bool keep(resource::extent const& memory) noexcept try {
    base::lock_guard const held(mutex_);
    if (forgotten_) return false;
    waiting_.reserve(waiting_.size() + 1);
    waiting_.push_back({memory, GPUMEM_MUTANT(refused_given_to_driver) ? nullptr : owner_.add(memory)});
    bytes_.fetch_add(memory.bytes, std::memory_order_relaxed);
    return true;
  } catch (std::bad_alloc const&) {
    return true;
  }
  std::vector<waiting> take(bool for_good) noexcept {
    base::lock_guard const held(mutex_);
    forgotten_ = forgotten_ || for_good;
    bytes_.store(0, std::memory_order_relaxed);
    return std::exchange(waiting_, {});
  }

  leaving owner_;
  base::mutex mutex_;
  bool forgotten_ GPUMEM_GUARDED_BY(mutex_) = false;
  std::atomic<std::uint64_t> bytes_{0};
  std::vector<waiting> waiting_ GPUMEM_GUARDED_BY(mutex_);
};

}  // namespace gpumem::upstream
