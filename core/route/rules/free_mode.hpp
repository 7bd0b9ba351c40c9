// What a free without a stream means for the memory, as the configuration chose it for the whole process.
// Read by the router when it starts; knows nothing of CUDA, so that config can name it.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpumem::route {

// deferred: it may serve again when the work before the free is done. synchronize: the free waits for that
// work. one_stream: it serves at once, as all work runs in one order (stream_order/one_stream.hpp).
enum class free_mode : std::uint8_t { deferred, synchronize, one_stream };
// In the order of free_mode.
inline constexpr std::string_view free_mode_names[] = {"deferred", "synchronize", "one_stream"};

}  // namespace gpumem::route
