// How far the local time is from UTC, for files that people read. libc's localtime_r takes a lock, which a
// fork beside another thread's call leaves taken in the child for ever: there the answer of its parent holds,
// and where that never asked it is UTC. Any thread; asked as a file is opened, not on the way of a request.
#pragma once

#include <cstdint>

namespace gpumem::base {

std::int64_t utc_offset_ns() noexcept;
// By a forked child, before anything else there: libc is not asked any more.
void no_local_time_in_child() noexcept;

}  // namespace gpumem::base
