// See known_refusals.hpp.
#include "core/upstream/known_refusals.hpp"

#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::upstream {

constinit std::array<known_refusals::refusal, stats::max_devices> known_refusals::last_{};

// Beside a capture the driver is not asked more than it must be.
bool known_refusals::lacks(std::uint64_t wanted, std::uint64_t& free) noexcept {
  if (stream_order::any_captures()) return false;
  std::size_t total = 0;
  return driver::real.cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS && free + margin < wanted;
}

bool known_refusals::is_believed(std::atomic<std::uint64_t> const& at) noexcept {
  std::uint64_t const when = at.load(std::memory_order_acquire);
  if (when == 0 || driver_keeps_memory.load(std::memory_order_relaxed)) return false;
  return base::now_ns() - when <= believed_ns;
}

bool known_refusals::is_certain(std::size_t device_slot, std::uint64_t bytes) noexcept {
  refusal const& last = last_[device_slot];
  if (!is_believed(last.at)) return false;
  std::uint64_t const then = last.free.load(std::memory_order_relaxed);
  if (GPUMEM_MUTANT(stale_refusal)) return bytes > then;
  if (bytes < last.bytes.load(std::memory_order_relaxed)) return false;
  std::uint64_t free = 0;
  return lacks(bytes, free) && free <= then;
}

bool known_refusals::is_hopeless(std::size_t device_slot, std::uint64_t bytes, std::uint64_t back) noexcept {
  refusal const& last = last_[device_slot];
  if (!is_believed(last.beyond_at)) return false;
  if (GPUMEM_MUTANT(nothing_comes_back)) back = 0;
  std::uint64_t free = 0;
  return lacks(bytes, free) && free + back + last.beyond.load(std::memory_order_relaxed) <= bytes;
}

bool known_refusals::has_less_than(std::uint64_t bytes) noexcept {
  std::uint64_t free = 0;
  return !driver_keeps_memory.load(std::memory_order_relaxed) && lacks(bytes, free);
}

std::optional<std::uint64_t> known_refusals::all_free() noexcept {
  if (driver_keeps_memory.load(std::memory_order_relaxed)) return std::nullopt;
  if (stream_order::any_captures()) return std::nullopt;
  std::size_t free = 0, total = 0;
  if (driver::real.cuMemGetInfo_v2(&free, &total) != CUDA_SUCCESS) return std::nullopt;
  return free;
}

void known_refusals::note(std::size_t device_slot, std::uint64_t bytes) noexcept {
  refusal& last = last_[device_slot];
  std::uint64_t free = 0;
  bool const for_lack = lacks(bytes, free);
  last.free.store(free, std::memory_order_relaxed);
  last.bytes.store(bytes, std::memory_order_relaxed);
  last.at.store(for_lack ? base::now_ns() : 0, std::memory_order_release);
  if (!for_lack) return last.beyond_at.store(0, std::memory_order_relaxed);  // it had more than it says
  if (is_believed(last.beyond_at) && bytes - free >= last.beyond.load(std::memory_order_relaxed)) return;
  last.beyond.store(bytes - free, std::memory_order_relaxed);
  last.beyond_at.store(base::now_ns(), std::memory_order_release);
}

}  // namespace gpumem::upstream
