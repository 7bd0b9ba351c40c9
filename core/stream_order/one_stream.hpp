// Whether all work of this process runs in one order: the configuration promises that the program uses only
// the default stream, and no stream or second context was made since. Memory freed by cudaFree may then
// serve the next cudaMalloc at once, as the stream runs the work before and after one by one. Set by route,
// read by resources on any thread; once false it stays false. Never true for memory that the host touches.
#pragma once

#include <atomic>

namespace gpumem::stream_order {

inline constinit std::atomic<bool> one_stream{false};

}  // namespace gpumem::stream_order
