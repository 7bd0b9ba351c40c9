// Counts by calling code: who asked, and how much. In the state page, so that they outlive a killed
// process. A call site is the return address into the program, or a call stack. Used by the resources
// `statistics` and `tracking` and by samples, any thread, inside the program's calls. The first call of a
// site takes a lock and reads /proc/self/maps; later ones look it up and add atomically. No heap.
#pragma once

#include <cstdint>
#include <span>

#include "core/stats/callers/modules.hpp"
#include "core/stats/callers/python_lines.hpp"

namespace gpumem::stats {

using call_site = std::uint32_t;
inline constexpr call_site no_site = 0;

// The site of these frames at this node of the chain; `no_site` without a page or when the table is full. The
// frames of a sample may be none: code that is not told apart.
call_site site_of(std::size_t node, std::span<void const* const> frames) noexcept;
// The same of the whole stack of this thread from the frame that returns to `caller` outwards, with the lines
// of Python code that it runs, or the thread's name where Python runs on others only.
call_site site_of_stack(std::size_t node, void const* caller) noexcept;

// Bytes as the program asked; nothing for `no_site`.
void count_allocation(call_site site, std::uint64_t bytes) noexcept;
void count_free(call_site site, std::uint64_t bytes) noexcept;

}  // namespace gpumem::stats
