// See free_pace.hpp.
#include "core/stream_order/free_pace.hpp"

#include "core/base/mutant.hpp"
#include "core/stream_order/epochs.hpp"

namespace gpumem::stream_order {

void free_pace::begin(std::uint64_t bytes, bool by_bytes) noexcept {
  by_bytes_.store(by_bytes, std::memory_order_relaxed);
  if (step_.exchange(bytes / 2, std::memory_order_relaxed) != 0) return;
  freed_.store(0, std::memory_order_relaxed);
  blocks_.store(0, std::memory_order_relaxed);
  idle_.store(0, std::memory_order_relaxed);
  mark_.store(epochs_.last_done(), std::memory_order_relaxed);
}

// Two threads at once may both take a step, or one none: it is a pace, not a rule of order.
free_pace::noted free_pace::note(std::uint64_t bytes) noexcept {
  std::uint64_t const step = step_.load(std::memory_order_relaxed);
  if (step == 0) return noted::off;
  if (!counts(bytes)) return noted::on;
  std::uint64_t const freed = freed_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::uint32_t const blocks = blocks_.fetch_add(1, std::memory_order_relaxed) + 1;
  bool const few = blocks < least_blocks && !by_bytes_.load(std::memory_order_relaxed);
  if (freed < step || (few && freed < very_large * step)) return noted::on;
  freed_.store(0, std::memory_order_relaxed);
  blocks_.store(0, std::memory_order_relaxed);
  epoch_id const now = epochs_.open();
  bool const idle = epochs_.collect(now);
  epoch_id const before = mark_.exchange(now, std::memory_order_relaxed);
  if (!idle) {
    idle_.store(0, std::memory_order_relaxed);
    epochs_.wait(before, longest_wait_ns);
    if (GPUMEM_MUTANT(pace_is_done)) epochs_.synchronize_done(now);
  } else if (idle_.fetch_add(1, std::memory_order_relaxed) + 1 >= idle_steps) {
    step_.store(0, std::memory_order_relaxed);
    return noted::off;
  }
  return noted::step;
}

}  // namespace gpumem::stream_order
