// What the driver's last refusal for lack of memory tells about the next request: where it has no more free
// memory than then, and no less is asked for, it would refuse again. A smaller one it may serve with more
// than it calls free: it moves managed memory away for it, also another process's. A refusal takes it 0.55 ms
// (both H100, driver 580.159), to say how much is free 4.5 us (H200, bench group driver_calls). Believed for
// a short while, and never where the driver holds memory of pools, graphs or managed memory of this process.
// One for each device; asked by upstreams on slow paths, from any thread, with the context current.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "core/base/clock.hpp"
#include "core/base/mutant.hpp"
#include "core/driver/table.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::upstream {

// The driver has memory pools or managed memory of this process, or memory of graphs: set by who makes such,
// for good.
inline std::atomic<bool> driver_keeps_memory{false};
inline void note_driver_keeps_memory() noexcept {
  if (!driver_keeps_memory.load(std::memory_order_relaxed))
    driver_keeps_memory.store(true, std::memory_order_relaxed);
}

class known_refusals {
 public:
  // The driver would refuse so many bytes.
  static bool is_certain(std::size_t device_slot, std::uint64_t bytes) noexcept;
  // It would even once `back` more had come back to it, by the least that it lacked for one lately.
  static bool is_hopeless(std::size_t device_slot, std::uint64_t bytes, std::uint64_t back) noexcept;
  // It has less, asked of the driver now.
  static bool has_less_than(std::uint64_t bytes) noexcept;
  // What it has, where that is known without more than a question.
  static std::optional<std::uint64_t> all_free() noexcept;
  // It has refused so many.
  static void note(std::size_t device_slot, std::uint64_t bytes) noexcept;

 private:
  static constexpr std::uint64_t believed_ns = 100'000'000;
  // What the driver may have in parts of pages that it keeps for small allocations, and does not call free.
  static constexpr std::uint64_t margin = 32ull << 20;

  struct refusal {
    std::atomic<std::uint64_t> at{0};  // nanoseconds; 0: none
    std::atomic<std::uint64_t> free{0};
    std::atomic<std::uint64_t> bytes{0};  // that were refused
    // The least that one was more than what was free, and when: it found less than that beyond.
    std::atomic<std::uint64_t> beyond{0};
    std::atomic<std::uint64_t> beyond_at{0};
  };
  // It was lately, and the driver keeps nothing for itself.
  static bool is_believed(std::atomic<std::uint64_t> const& at) noexcept;
  // The driver has less than that, and says how much; false also where it was not asked.
  static bool lacks(std::uint64_t wanted, std::uint64_t& free) noexcept;

  static std::array<refusal, stats::max_devices> last_;
};

}  // namespace gpumem::upstream
