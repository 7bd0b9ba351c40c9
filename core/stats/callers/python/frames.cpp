// See frames.hpp. Frames and code objects are read as CPython's own remote debugging reads them
// (Modules/_remote_debugging_module.c of 3.14, for the order of the fields and the marks in addresses).
#include "core/stats/callers/python/frames.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/own_memory_pieces.hpp"
#include "core/stats/callers/python/line_table.hpp"

namespace gpumem::stats::python {
namespace {

constexpr std::size_t most_passed = 64;  // frames, whatever they are of
constexpr std::uintptr_t mark_bits = 3;  // of an address that a frame holds (3.14 and later)

// What frames refer to does not change as long as they run. Its parts lie near each other: one call of the
// system each took a walk most of its time.
using base::own_memory_pieces;

template <typename value>
bool field(own_memory_pieces& memory, void const* object, std::size_t offset, value& to) noexcept {
  return memory.read_value(static_cast<char const*>(object) + offset, to);
}

bool is_of_type(offsets const& of, own_memory_pieces& memory, void const* object, void const* type) noexcept {
  void const* there = nullptr;
  return object != nullptr && field(memory, object, of.object_type, there) && there == type;
}

void const* innermost(offsets const& of, own_memory_pieces& memory) noexcept {
  auto const* const state = static_cast<char const*>(state_of_this_thread(of, memory));
  void const* found = nullptr;
  if (state == nullptr || !memory.read_value(state + of.thread_frame, found) || found == nullptr)
    return nullptr;
  auto const* const frame = static_cast<char const*>(found) + of.c_frame_frame;
  if (of.by_c_frame && !memory.read_value(frame, found)) return nullptr;
  return found;
}

// What a frame holds that is needed, read at once.
struct raw_frame {
  void const* code = nullptr;
  void const* previous = nullptr;
  std::uint64_t instruction = 0;  // an address, or, before 3.11, an index
  std::int32_t bytecode = 0;
  bool is_of_python = true;  // not one that the interpreter puts between
};

bool read_frame(offsets const& of, own_memory_pieces& memory, void const* at, raw_frame& to) noexcept {
  char bytes[128];
  std::size_t const wanted = std::max({of.frame_code, of.frame_previous, of.frame_instruction}) + 8;
  std::size_t const whole = std::max({wanted, of.frame_owner + 1, of.frame_bytecode + 4});
  if (whole > sizeof bytes || !memory.read(at, bytes, whole)) return false;
  std::uintptr_t code = 0;
  std::memcpy(&code, bytes + of.frame_code, sizeof code);
  to.code = reinterpret_cast<void const*>(code & ~mark_bits);
  std::memcpy(&to.previous, bytes + of.frame_previous, sizeof to.previous);
  if (of.has_instruction_address()) {
    std::memcpy(&to.instruction, bytes + of.frame_instruction, sizeof to.instruction);
  } else {
    std::int32_t index = 0;
    std::memcpy(&index, bytes + of.frame_instruction, sizeof index);
    to.instruction = index < 0 ? 0 : static_cast<std::uint64_t>(index);
  }
  to.bytecode = 0;
  if (of.frame_bytecode != 0) std::memcpy(&to.bytecode, bytes + of.frame_bytecode, sizeof to.bytecode);
  constexpr char of_the_interpreter = 3;
  to.is_of_python = of.frame_owner == 0 || bytes[of.frame_owner] < of_the_interpreter;
  return true;
}

template <typename visitor>
void each_raw_frame(offsets const& of, visitor visit, frame_places* last = nullptr) noexcept {
  // From 3.11 on frames lie side by side, and in a loop they are where they were: one call of the system
  // brings what was looked at last. They are this thread's own, and do not change while it is here.
  own_memory_pieces memory(last != nullptr ? *last : own_memory_pieces::places{});
  void const* at = innermost(of, memory);
  for (std::size_t passed = 0; at != nullptr && passed < most_passed; ++passed) {
    raw_frame found;
    if (!read_frame(of, memory, at, found)) break;
    if (found.is_of_python && !visit(found, memory)) break;
    at = found.previous;
  }
  if (last != nullptr) *last = memory.places_used();
}

// --- text ---

std::size_t put_character(char* to, std::size_t room, std::uint32_t c) noexcept {
  std::size_t const bytes = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  if (bytes > room) return 0;
  if (bytes == 1) {
    to[0] = static_cast<char>(c);
    return 1;
  }
  constexpr unsigned leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (std::size_t i = bytes; i-- > 1; c >>= 6) to[i] = static_cast<char>(0x80 | (c & 63));
  to[0] = static_cast<char>(leads[bytes] | c);
  return bytes;
}

// As UTF-8; of a longer text the end. How many bytes; 0: no text, or it cannot be read.
std::size_t read_text(offsets const& of, own_memory_pieces& memory, void const* text,
                      std::span<char> to) noexcept {
  std::int64_t length = 0;
  std::uint32_t state = 0;
  if (!is_of_type(of, memory, text, known_types().text) || !field(memory, text, of.text_length, length) ||
      !field(memory, text, of.text_state, state) || length <= 0)
    return 0;
  std::size_t const width = state >> of.text_kind_shift & 7;
  bool const is_compact = (state >> (of.text_kind_shift + 3) & 1) != 0;
  bool const is_ascii = (state >> (of.text_kind_shift + 4) & 1) != 0;
  if (!is_compact || (width != 1 && width != 2 && width != 4)) return 0;
  char const* const begin = static_cast<char const*>(text) + (is_ascii ? of.ascii_start : of.wide_start);
  std::size_t const most = is_ascii ? to.size() : to.size() / 3;
  std::size_t const kept = std::min(static_cast<std::size_t>(length), most);
  char const* const from = begin + (static_cast<std::size_t>(length) - kept) * width;
  if (is_ascii) return memory.read(from, to.data(), kept) ? kept : 0;
  char raw[most_name_bytes / 3 * 4];
  if (kept * width > sizeof raw || !memory.read(from, raw, kept * width)) return 0;
  std::size_t written = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    std::uint32_t c = 0;
    std::memcpy(&c, raw + i * width, width);
    written += put_character(to.data() + written, to.size() - written, c);
  }
  return written;
}

// --- code ---

void const* start_of(offsets const& of, own_memory_pieces& memory, raw_frame const& in) noexcept {
  void const* const start = static_cast<char const*>(in.code) + of.code_start;
  if (of.code_copies == 0 || in.bytecode <= 0) return start;
  void const *copies = nullptr, *copy = nullptr;  // a count, then addresses
  if (!field(memory, in.code, of.code_copies, copies) || copies == nullptr) return nullptr;
  return field(memory, copies, 8 + 8 * static_cast<std::size_t>(in.bytecode), copy) ? copy : nullptr;
}

std::uint32_t line_of(offsets const& of, own_memory_pieces& memory, raw_frame const& in) noexcept {
  std::int32_t first_line = 0;
  void const* table = nullptr;
  std::int64_t size = 0;
  if (!field(memory, in.code, of.code_first_line, first_line) ||
      !field(memory, in.code, of.code_lines, table) || !is_of_type(of, memory, table, known_types().bytes) ||
      !field(memory, table, of.size, size) || size < 0 || first_line < 0)
    return 0;
  std::uint64_t instruction = in.instruction;
  if (of.has_instruction_address()) {
    auto const start = reinterpret_cast<std::uint64_t>(start_of(of, memory, in));
    if (start == 0 || instruction + 2 < start || instruction - start > 1u << 28) {
      if (instruction + 2 != start) return 0;
    }
    instruction = instruction < start ? 0 : instruction - start;
  } else if (of.lines == lines_of::line_ranges) {
    instruction *= 2;
  }
  line_table const lines{static_cast<char const*>(table) + of.bytes_start, static_cast<std::size_t>(size),
                         of.lines};
  return line_in(memory, lines, static_cast<std::uint32_t>(first_line), instruction);
}

bool read_code(offsets const& of, own_memory_pieces& memory, raw_frame const& in, frame& to) noexcept {
  void const *file = nullptr, *function = nullptr;
  if (!is_of_type(of, memory, in.code, known_types().code) || !field(memory, in.code, of.code_file, file) ||
      !field(memory, in.code, of.code_name, function))
    return false;
  to.function_bytes = read_text(of, memory, function, to.function_text);
  if (to.function() == "_call_impl" || to.function() == "_wrapped_call_impl") return false;
  to.file_bytes = read_text(of, memory, file, to.file_text);
  to.line = line_of(of, memory, in);
  return to.file_bytes != 0 && to.function_bytes != 0;
}

}  // namespace

std::uint64_t place_in(offsets const& of, frame_places* last) noexcept {
  constexpr std::size_t looked_at = 32;
  std::uint64_t place = 0;
  std::size_t seen = 0;
  each_raw_frame(
      of,
      [&](raw_frame const& found, own_memory_pieces&) {
        place = (place ^ reinterpret_cast<std::uint64_t>(found.code) ^ found.instruction * 31) *
                0x9e3779b97f4a7c15ull;
        place ^= place >> 29;
        return ++seen < looked_at;
      },
      last);
  return place;
}

void walk(void* context, frame_visitor visit) noexcept {
  offsets const* const of = known_interpreter();
  if (of == nullptr) return;
  frame found;
  each_raw_frame(*of, [&](raw_frame const& raw, own_memory_pieces& memory) {
    return read_code(*of, memory, raw, found) ? visit(context, found) : true;
  });
}

}  // namespace gpumem::stats::python
