// The per-thread default streams of each thread. Their slots go back when the thread ends, as nobody can
// name such a stream any more; what was freed on one then waits for its epoch, as with a destroyed stream.
// Called by the router when it asks the driver for a stream; no lock, no driver call. If memory is short a
// slot is not given back.
#pragma once

#include <cstdint>

#include "core/route/contexts/contexts.hpp"

namespace gpumem::route {

// The stream that had it is gone: it may be another's. no_slot: it had none.
void drop_slot(context_entry& entry, stream_order::slot slot) noexcept;

// This thread's own default stream in this context.
void keep_thread_stream(context_entry& entry, std::uint64_t id) noexcept;

}  // namespace gpumem::route
