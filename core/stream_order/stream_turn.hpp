// Begins and ends of captures of one stream, and its destruction, one after the other: what the driver did
// and what the books say of it (epochs) is one step. Otherwise another thread could begin the next capture
// before the end of the last one is written down, and the wrong one would be forgotten. Calls on different
// streams do not wait for one another: a begin may wait in the driver for a cudaFree (measured). The only
// turn there is costs one atomic operation; more at once are in a list. Any thread, without cancellation;
// held across the driver's call. No heap.
#pragma once

#include <atomic>
#include <mutex>

#include "core/base/threads/adaptive_mutex.hpp"
#include "core/base/threads/doorbell.hpp"
#include "core/base/threads/interleave.hpp"
#include "core/driver/table.hpp"

namespace gpumem::stream_order {

class stream_turn {
 public:
  // The per-thread stream is one of each thread, which the caller tells apart.
  explicit stream_turn(CUstream of) noexcept : stream_(of), is_alone_(take_alone()) {
    if (!is_alone_ && !enter()) [[unlikely]]
      wait();
  }
  ~stream_turn() {
    if (is_alone_) [[likely]]
      all.alone.store(nullptr, std::memory_order_release);
    else
      leave();
    all.over.ring_sleeper();
  }
  stream_turn(stream_turn const&) = delete;
  stream_turn& operator=(stream_turn const&) = delete;

  // Only in the single thread of a forked child: others' turns are not its own.
  static void forget_in_child() noexcept;

 private:
  struct turns {
    std::atomic<CUstream> alone{nullptr};  // whose turn it is, without the list
    std::atomic<int> listed{0};            // in the list, or about to be
    base::adaptive_mutex mutex;
    stream_turn* first = nullptr;
    base::doorbell over;
  };

  // One writes `alone` before it reads `listed`, the other `listed` before `alone`: of two that want the same
  // stream at least one sees the other.
  bool take_alone() noexcept {
    if (all.listed.load(std::memory_order_relaxed) != 0) return false;
    base::interleave();
    CUstream nobody = nullptr;
    if (!all.alone.compare_exchange_strong(nobody, stream_, std::memory_order_seq_cst)) return false;
    base::interleave();
    if (all.listed.load(std::memory_order_seq_cst) == 0) [[likely]]
      return true;
    all.alone.store(nullptr, std::memory_order_release);
    return false;
  }
  bool enter() noexcept;  // false: another thread has it
  bool is_taken() const noexcept;
  void wait() noexcept;
  void leave() noexcept;

  static turns all;

  CUstream stream_;
  bool is_alone_;
  stream_turn* next_ = nullptr;
};

}  // namespace gpumem::stream_order
