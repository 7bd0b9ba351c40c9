// Messages of gpumem, library or program, to the person who runs it: one line each, "gpumem: warning: what,
// limit, remedy". Any thread, on slow paths. Never from a hot path, from dlsym, or with a lock of core
// held: it formats and writes. Writes to a file, or to a copy of stderr taken at the first CUDA call, as
// programs close stderr early. Takes no lock, which a fork might leave locked.
#pragma once

#include <string_view>

namespace gpumem::base {

enum class log_level { trace, debug, info, warn, error, off };

// Before it: warnings and errors to descriptor 2. An empty or unusable pattern is default_log_pattern.
void start_log(int descriptor, log_level level, std::string_view pattern = {}) noexcept;
// From now on into this file, whose descriptor becomes the log's; `path` for the message when it fails, and
// then lines go where they went before.
void log_into(int file, std::string_view path) noexcept;
// In the child of a fork: closes what the parent opened for its messages, as whoever reads a pipe waits until
// nobody has it open. Messages go to descriptor 2 then, while it is the same file, until start_log.
void let_go_of_log_in_child() noexcept;
// "warn" -> log_level::warn; false for an unknown name.
bool parse_log_level(std::string_view name, log_level& level) noexcept;
// Where messages without a file, and reports, go now: the descriptor of start_log, or 2, while it is the same
// file still; otherwise -1, so that nothing is ever written into a file of the program's.
int log_descriptor() noexcept;

void log_line(log_level level, std::string_view text) noexcept;

}  // namespace gpumem::base
