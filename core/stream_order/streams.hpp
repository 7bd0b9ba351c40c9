// The streams of one context by identity: the driver's stream id, which is never used twice, unlike the
// handle. Gives each stream that orders memory a small slot number; slot 0 means "no stream": such memory
// waits for its epoch. slot_of and forget take a lock; callers remember the slot (route_memo) as long as no
// stream comes or goes. A stream that goes is named by its handle: it may capture, and asking a capturing
// stream for its id would invalidate the capture.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "core/base/threads/mutex.hpp"

namespace gpumem::stream_order {

using slot = std::uint16_t;
inline constexpr slot no_slot = 0;
inline constexpr slot most_slots = 2048;
// What a live block notes: asked for in the order of a stream that has no slot.
inline constexpr slot in_some_order = 0x8000;

class streams {
 public:
  // `no_slot` when all slots are taken.
  slot slot_of(std::uint64_t id, CUstream handle = nullptr) noexcept;
  // The slot the stream had. Give it back with `recycle` once no memory is tied to it.
  slot forget(std::uint64_t id) noexcept;
  // The same for the stream that was last seen with this handle: whatever had it is gone.
  slot forget(CUstream handle) noexcept;
  // Null: the stream is gone, or a default one, whose handle names another in another thread; and in a
  // process that made green contexts, whose streams are no longer the driver's to ask about once these have
  // ended.
  CUstream handle_of(slot s) noexcept;
  static void green_context_made() noexcept { handles_last_.store(false, std::memory_order_relaxed); }
  // One more than the highest slot that a stream of the context ever had.
  slot end() noexcept {
    base::lock_guard lock(mutex_);
    return used_;
  }
  // The slot may be another stream's.
  void recycle(slot s) noexcept;
  // Of another context from now on, which has none yet.
  void begin_again() noexcept;

 private:
  static inline std::atomic<bool> handles_last_{true};

  base::mutex mutex_;
  std::map<std::uint64_t, slot> by_id_ GPUMEM_GUARDED_BY(mutex_);
  std::map<CUstream, std::uint64_t> ids_ GPUMEM_GUARDED_BY(mutex_);
  std::vector<slot> spare_ GPUMEM_GUARDED_BY(mutex_);
  slot used_ GPUMEM_GUARDED_BY(mutex_) = 1;
};

}  // namespace gpumem::stream_order
