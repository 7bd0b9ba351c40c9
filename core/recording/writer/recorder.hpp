// The recording of this process ([recording]): its start, its end, and its two threads, which exist only
// where one was asked for. One merges the threads' rings into frames, the other writes these to the file, so
// that the program waits for neither. What goes wrong ends the recording, never the program: one warning,
// and the report says so. start(), flush() and finish() are called by the shim.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpumem::recording {

struct start_options {
  std::string_view file;        // a pattern, absolute
  std::uint64_t max_bytes = 0;  // of the file; 0: no limit
  std::string_view tool_version;
};
// Once, before the first request, with the state page open. False, and a warning, where it cannot be had.
bool start(start_options const& options) noexcept;

// Brings everything so far into the file, and says there that it is complete: the process may be replaced
// now. Waits while that goes on, but not for a disk that stalls.
void flush() noexcept;
// The same, and nothing is recorded any more.
void finish() noexcept;

// In a forked child: the recording is the parent's.
void forget_in_child() noexcept;

}  // namespace gpumem::recording
