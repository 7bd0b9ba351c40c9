// Memory that the driver refused to take back: in a host function of a stream nobody may free. It stays
// reserved until a later call of the upstream gives it back. Called on slow paths, from any thread.
#pragma once

#include <atomic>
#include <new>
#include <utility>
#include <vector>

#include "core/base/threads/mutex.hpp"
#include "core/resource/source.hpp"

namespace gpumem::upstream {

class refused_frees {
 public:
  // `free(memory)` gives it back, or says false. Where the list finds no memory the block is lost.
  template <typename Free>
  void release(resource::extent const& memory, Free&& free) noexcept {
    if (free(memory)) return;
    try {
      base::lock_guard const held(mutex_);
      waiting_.push_back(memory);
      bytes_.fetch_add(memory.bytes, std::memory_order_relaxed);
    } catch (std::bad_alloc const&) {
    }
  }
  template <typename Free>
  void retry(Free&& free) noexcept {
    if (bytes() == 0) return;
    std::vector<resource::extent> now;
    {
      base::lock_guard const held(mutex_);
      now.swap(waiting_);
      bytes_.store(0, std::memory_order_relaxed);
    }
    for (resource::extent const& memory : now) release(memory, free);
  }

  // Of all that waits.
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  base::mutex mutex_;
  std::atomic<std::uint64_t> bytes_{0};
  std::vector<resource::extent> waiting_ GPUMEM_GUARDED_BY(mutex_);
};

}  // namespace gpumem::upstream
