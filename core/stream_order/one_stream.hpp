// Whether all work of this process is known to run in one order: the configuration promises that the program
// uses nothing but the default stream, and it has not created a stream or used a second context since. Memory
// freed by cudaFree may then serve the next cudaMalloc while the work before the free still runs, as that
// stream runs them one after the other. Set by route, read by resources on any thread; once false it stays
// so. Never true for memory that the host touches.
#pragma once

#include <atomic>

namespace gpumem::stream_order {

inline constinit std::atomic<bool> one_stream{false};

}  // namespace gpumem::stream_order
