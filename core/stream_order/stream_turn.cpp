// See stream_turn.hpp.
#include "core/stream_order/stream_turn.hpp"

#include <new>

#include "core/base/mutant.hpp"

namespace gpumem::stream_order {

constinit stream_turn::turns stream_turn::all;

bool stream_turn::is_taken() const noexcept {
  if (GPUMEM_MUTANT(stream_turn_ignored)) return false;
  if (all.alone.load(std::memory_order_seq_cst) == stream_) return true;
  for (stream_turn const* each = all.first; each != nullptr; each = each->next_)
    if (each->stream_ == stream_) return true;
  return false;
}

bool stream_turn::enter() noexcept {
  std::lock_guard const lock(all.mutex);
  all.listed.fetch_add(1, std::memory_order_seq_cst);
  if (is_taken()) {
    all.listed.fetch_sub(1, std::memory_order_release);
    return false;
  }
  next_ = all.first;
  all.first = this;
  return true;
}

void stream_turn::leave() noexcept {
  std::lock_guard const lock(all.mutex);
  stream_turn** at = &all.first;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
  all.listed.fetch_sub(1, std::memory_order_release);
}

void stream_turn::wait() noexcept {
  constexpr std::uint64_t missed_ring_ns = 1'000'000;
  for (std::uint32_t rung = all.over.rung(); !enter(); rung = all.over.rung())
    all.over.wait(rung, missed_ring_ns);
}

void stream_turn::forget_in_child() noexcept {
  new (&all) turns;
}

}  // namespace gpumem::stream_order
