// Where CPython keeps what a frame is: offsets into its structures, of the interpreter that this process
// runs. From 3.13 on the interpreter tells them itself (_Py_DebugOffsets, the head of _PyRuntime), before it
// they are constants of a minor version. Found once, by weak symbols: without an interpreter, or of one that
// is not known (PyPy, another version, loaded later and for itself), there is none. Any thread, no heap; the
// interpreter's lock is neither taken nor needed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/own_memory_pieces.hpp"

namespace gpumem::stats::python {

enum class lines_of { line_increments, line_ranges, locations };  // 3.9; 3.10; from 3.11 on

struct offsets {
  std::uint32_t version = 0;  // 0x030b for 3.11
  bool free_threaded = false;
  lines_of lines = lines_of::locations;
  // Of the thread's state: a frame, or, in 3.11 and 3.12, a structure that holds it there.
  std::size_t thread_interpreter = 0, thread_frame = 0;
  bool by_c_frame = false;
  std::size_t c_frame_frame = 0;
  // Of a frame.
  std::size_t frame_code = 0, frame_previous = 0, frame_instruction = 0;
  std::size_t frame_owner = 0;     // 0: not told
  std::size_t frame_bytecode = 0;  // which thread's copy of the code; 0: there are none
  // Of a code object.
  std::size_t code_first_line = 0, code_file = 0, code_name = 0, code_lines = 0, code_start = 0;
  std::size_t code_copies = 0;
  // Of other objects.
  std::size_t object_type = 8, size = 16;
  std::size_t bytes_start = 32;
  std::size_t text_length = 16, text_state = 32, ascii_start = 48, wide_start = 72;
  unsigned text_kind_shift = 2;

  bool has_instruction_address() const noexcept { return version >= 0x030b; }
};

// Null where no frames can be told. The same from its first call on.
enum class interpreter : int { not_asked, being_asked, is_known, is_unknown };
inline constinit std::atomic<interpreter> interpreter_here{interpreter::not_asked};
offsets const* find_interpreter() noexcept;
inline offsets const* known_interpreter() noexcept {
  bool const is_none = interpreter_here.load(std::memory_order_relaxed) == interpreter::is_unknown;
  return is_none ? nullptr : find_interpreter();
}

// The interpreter's state of this thread; null without one, as of a thread that no Python code ran on, or
// after the interpreter has ended, and of threads of subinterpreters.
void const* state_of_this_thread(offsets const& of, base::own_memory_pieces& memory) noexcept;

struct types {
  void const *code, *text, *bytes;
};
types known_types() noexcept;

// --- for tests ---
// Of the structure at the head of _PyRuntime, or of a version alone (0x030c for 3.12).
bool read_offsets(void const* debug_offsets, std::uint32_t version, offsets& to) noexcept;
bool offsets_of_version(std::uint32_t version, offsets& to) noexcept;

}  // namespace gpumem::stats::python
