// Messages of gpumem to the person who runs the program, library or `gpumem`: one line each, "gpumem:
// warning: what, limit, remedy". Called from slow paths on any thread. Never from a hot path, from dlsym, or
// while a lock of core is held: it formats and writes. Goes to a duplicate of stderr that the shim took at
// the first CUDA call, as programs close stderr early, or into a file. Takes no lock, which a fork might
// leave behind.
#pragma once

#include <string_view>

namespace gpumem::base {

enum class log_level { trace, debug, info, warn, error, off };

// Before it: warnings and errors to descriptor 2. An empty or unusable pattern is default_log_pattern.
void start_log(int descriptor, log_level level, std::string_view pattern = {}) noexcept;
// From now on into this file, whose descriptor becomes the log's; `path` for the message when it fails, and
// then lines go where they went before.
void log_into(int file, std::string_view path) noexcept;
// "warn" -> log_level::warn; false for an unknown name.
bool parse_log_level(std::string_view name, log_level& level) noexcept;
// Where messages without a file, and reports, go now: the descriptor of start_log, or 2, while it is the same
// file still; otherwise -1, so that nothing is ever written into a file of the program's.
int log_descriptor() noexcept;

void log_line(log_level level, std::string_view text) noexcept;

}  // namespace gpumem::base
