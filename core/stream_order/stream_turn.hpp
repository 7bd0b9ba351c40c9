// Begins and ends of captures of one stream, and its destruction, one after the other: what the driver did
// and what the books say of it (epochs) is one step. Otherwise another thread could begin the next capture
// before the end of the last one is written down, and the wrong one would be forgotten. Calls on different
// streams do not wait for one another: a begin may wait in the driver for a cudaFree (measured). Any thread,
// without cancellation; held across the driver's call. No heap.
#pragma once

#include <mutex>

#include "core/base/threads/adaptive_mutex.hpp"
#include "core/base/threads/doorbell.hpp"
#include "core/driver/table.hpp"

namespace gpumem::stream_order {

class stream_turn {
 public:
  // The per-thread stream is one of each thread, which the caller tells apart.
  explicit stream_turn(CUstream of) noexcept : stream_(of) {
    if (!enter()) [[unlikely]]
      wait();
  }
  ~stream_turn() {
    {
      std::lock_guard const lock(all.mutex);
      stream_turn** at = &all.first;
      while (*at != this) at = &(*at)->next_;
      *at = next_;
    }
    all.over.ring_sleeper();
  }
  stream_turn(stream_turn const&) = delete;
  stream_turn& operator=(stream_turn const&) = delete;

  // Only in the single thread of a forked child: others' turns are not its own.
  static void forget_in_child() noexcept;

 private:
  struct turns {
    base::adaptive_mutex mutex;
    stream_turn* first = nullptr;
    base::doorbell over;
  };

  // False: another thread has it.
  bool enter() noexcept {
    std::lock_guard const lock(all.mutex);
    if (all.first != nullptr && is_taken()) [[unlikely]]
      return false;
    next_ = all.first;
    all.first = this;
    return true;
  }
  bool is_taken() const noexcept;
  void wait() noexcept;

  static turns all;

  CUstream stream_;
  stream_turn* next_ = nullptr;
};

}  // namespace gpumem::stream_order
