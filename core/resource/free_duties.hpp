// What a free without a stream has to do besides, anywhere in the process, and a large one in the order of a
// stream that cannot be asked about its work: one byte, which the hot path reads once. Set and cleared by any
// thread; a duty that is set twice, or cleared too early, is set again by who knows of it.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/mutant.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::resource {

using free_duty = std::uint8_t;
inline constexpr free_duty waits = 1;       // behavior.free = "synchronize": it is a barrier
inline constexpr free_duty gives_back = 2;  // some suballocator has memory that may be due (going_back)
inline constexpr free_duty paces = 4;       // in some context frees keep the GPU's pace (free_pace)
inline constexpr free_duty settles = 8;     // some pool is near its bound: a large free has an event at once
inline constexpr free_duty asks = 16;       // a context has ended, and may be current where somebody frees
inline std::atomic<free_duty> free_duties{0};
inline constexpr std::uint64_t settled_from = 64ull << 20;  // what is large

// Beside a capture no free gives memory back. Asked before each piece: one may begin, in any thread, while
// the driver takes another.
inline bool may_give_back() noexcept {
  return !stream_order::any_captures() || GPUMEM_MUTANT(returns_beside_capture);
}

}  // namespace gpumem::resource
