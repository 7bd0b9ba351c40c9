// Which contexts a thread has made current for a moment without being the program's choice there, and which a
// call under way may end. A driver crashes where a context ends between a push of it and the pop (580.159,
// tests/gpu/ended_beside_calls): so nobody enters what may be ending, and the end waits for who is inside.
// Called by scoped_context, and around calls that may end a context; any thread. Never on a hit.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpumem::stream_order::context_visits {

// Where a call under way may end it: not now, or when that call is over. Many of these calls end nothing, as
// a library's that looks at the primary context: what a request needs waits for them.
enum class if_ending { refuse, wait };

// False: it is not to be made current, as it may be ending, with `wait` for a second, or memory is short.
bool enter(CUcontext context, if_ending then) noexcept;
void leave(CUcontext context) noexcept;

// Until end_over() nobody enters. When this returns whoever was inside has left, or has been at it for so
// long: what it waits for may be the program's to do.
enum class patience : std::uint64_t { ten_seconds = 10'000'000'000, minute = 60'000'000'000 };
void end_begins(CUcontext context, patience limit) noexcept;
void end_over(CUcontext context) noexcept;

// In a forked child: its parent's other threads are not there to leave.
void forget() noexcept;

}  // namespace gpumem::stream_order::context_visits
