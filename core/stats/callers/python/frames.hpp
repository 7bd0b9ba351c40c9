// The Python frames of this thread, read as plain memory: PyTorch gives the interpreter's lock away before it
// allocates, so it is neither asked for nor taken, and no reference is counted. A thread that is inside a
// call of ours does not change its own frames. Every read is checked, and every object's type: right frames
// or none. Called by samples, `tracking` and refusals, inside the program's calls; no heap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/stats/callers/python/interpreter.hpp"

namespace gpumem::stats::python {

inline constexpr std::size_t most_name_bytes = 232;

struct frame {
  std::array<char, most_name_bytes> file_text, function_text;
  std::size_t file_bytes = 0, function_bytes = 0;
  std::uint32_t line = 0;  // 0: not told

  // UTF-8; of a file whose name is too long the end.
  std::string_view file() const noexcept { return {file_text.data(), file_bytes}; }
  std::string_view function() const noexcept { return {function_text.data(), function_bytes}; }
};

// Where this thread is in Python code, in one number; 0 without Python frames. Equal for equal frames, down
// to the instruction, of the innermost few dozen.
// `last`: where in memory they were when it was asked before, which makes it cheaper; null: not known.
using frame_places = base::own_memory_pieces::places;
std::uint64_t place_in(offsets const& of, frame_places* last) noexcept;
inline std::uint64_t place_of_this_thread(frame_places* last) noexcept {
  offsets const* const of = known_interpreter();
  return of == nullptr ? 0 : place_in(*of, last);
}

// Python code runs in this process, and its frames can be read.
inline bool is_here() noexcept {
  return known_interpreter() != nullptr;
}

// Goes through the frames, innermost first, until `visit` says no. Functions with which PyTorch calls the
// next layer are left out: three of four frames are theirs.
using frame_visitor = bool (*)(void* context, frame const& found);
void walk(void* context, frame_visitor visit) noexcept;

}  // namespace gpumem::stats::python
