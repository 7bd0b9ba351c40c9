// Whether descriptor 2, or 1, is a place for messages. If it was closed when the process started, the next
// file that the program opens gets the number, and our report would end up in its data. Asked once when
// CUDA starts, and for standard output when a report goes there; any thread.
#pragma once

#include "core/base/files/file_identity.hpp"

namespace gpumem::base {

// `at_start`: what it named when the process started. A program may have put another file there since: a
// terminal, a pipe, a log that is appended to, or one that another of its descriptors names too (as stdout,
// or the one it was copied from). A regular file that this descriptor alone names may be anything: no.
bool is_for_messages(file_identity const& at_start, int descriptor = STDERR_FILENO) noexcept;

}  // namespace gpumem::base
