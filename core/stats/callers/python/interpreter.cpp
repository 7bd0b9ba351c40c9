// See interpreter.hpp. The constants were printed by offsetof with the headers of 3.9.18, 3.10.13, 3.11.7 and
// 3.12.1; what _Py_DebugOffsets begins with is from the headers of 3.13.0, 3.14.10 and 3.15.2.
#include "core/stats/callers/python/interpreter.hpp"

#include <cstdlib>
#include <cstring>

#include "core/base/own_memory.hpp"

// All of them take no lock and need no interpreter that runs. Weak: a program without Python has none.
extern "C" {
[[gnu::weak]] void* PyGILState_GetThisThreadState();
[[gnu::weak]] void* PyInterpreterState_Main();
[[gnu::weak]] char const* Py_GetVersion();
[[gnu::weak]] extern char _PyRuntime[];
[[gnu::weak]] extern char PyCode_Type[];
[[gnu::weak]] extern char PyUnicode_Type[];
[[gnu::weak]] extern char PyBytes_Type[];
}

namespace gpumem::stats::python {
namespace {

constexpr char cookie[8] = {'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'};

// Places of fields in _Py_DebugOffsets, counted in words.
struct debug_offsets_layout {
  std::size_t thread_interpreter, thread_frame;
  std::size_t frame_previous, frame_code, frame_instruction, frame_owner, frame_bytecode;  // 0: not told
  std::size_t code_file, code_name, code_lines, code_first_line, code_start, code_copies;
  std::size_t object_type, bytes_size, bytes_start, text_state, text_length, ascii_bytes;
};
constexpr debug_offsets_layout in_3_13{22, 23, 29, 30, 31, 33, 0,  35, 36, 38,
                                       39, 43, 0,  45, 65, 66, 68, 69, 70};
constexpr debug_offsets_layout in_3_14{25, 26, 32, 33, 34, 36, 38, 40, 41, 43,
                                       44, 48, 49, 51, 75, 76, 78, 79, 80};
constexpr debug_offsets_layout in_3_15{25, 26, 40, 41, 42, 44, 46, 48, 49, 51,
                                       52, 56, 57, 59, 87, 88, 90, 91, 92};

debug_offsets_layout const* layout_of(std::uint32_t version) noexcept {
  switch (version) {
    case 0x030d:
      return &in_3_13;
    case 0x030e:
      return &in_3_14;
    case 0x030f:
      return &in_3_15;
    default:
      return nullptr;
  }
}

std::uint32_t version_of_this() noexcept {
  if (Py_GetVersion == nullptr) return 0;
  char* rest = nullptr;
  unsigned long const major = std::strtoul(Py_GetVersion(), &rest, 10);
  if (*rest != '.' || major != 3) return 0;
  unsigned long const minor = std::strtoul(rest + 1, nullptr, 10);
  return minor < 256 ? static_cast<std::uint32_t>(major << 8 | minor) : 0;
}

bool find(offsets& to) noexcept {
  if (PyGILState_GetThisThreadState == nullptr || PyInterpreterState_Main == nullptr ||
      static_cast<char const*>(PyCode_Type) == nullptr ||
      static_cast<char const*>(PyUnicode_Type) == nullptr ||
      static_cast<char const*>(PyBytes_Type) == nullptr)
    return false;
  std::uint32_t const version = version_of_this();
  if (version < 0x030d) return offsets_of_version(version, to);
  return static_cast<char const*>(_PyRuntime) != nullptr && read_offsets(_PyRuntime, version, to);
}

constinit offsets found{};

}  // namespace

bool read_offsets(void const* debug_offsets, std::uint32_t version, offsets& to) noexcept {
  debug_offsets_layout const* const at = layout_of(version);
  std::uint64_t words[100];
  if (at == nullptr || !base::read_own(debug_offsets, words)) return false;
  if (std::memcmp(words, cookie, sizeof cookie) != 0 || words[1] >> 16 != version) return false;
  for (std::size_t i = 3; i < 100; ++i) {
    if (i <= at->ascii_bytes && words[i] > 1u << 20) return false;
  }
  auto const told = [&words](std::size_t word) { return word == 0 ? 0 : std::size_t{words[word]}; };
  to = {};
  to.version = version;
  to.free_threaded = words[2] != 0;
  to.thread_interpreter = told(at->thread_interpreter), to.thread_frame = told(at->thread_frame);
  to.frame_previous = told(at->frame_previous), to.frame_code = told(at->frame_code);
  to.frame_instruction = told(at->frame_instruction), to.frame_owner = told(at->frame_owner);
  to.frame_bytecode = to.free_threaded ? told(at->frame_bytecode) : 0;
  to.code_file = told(at->code_file), to.code_name = told(at->code_name);
  to.code_lines = told(at->code_lines), to.code_first_line = told(at->code_first_line);
  to.code_start = told(at->code_start), to.code_copies = to.free_threaded ? told(at->code_copies) : 0;
  to.object_type = told(at->object_type), to.size = told(at->bytes_size);
  to.bytes_start = told(at->bytes_start), to.text_state = told(at->text_state);
  to.text_length = told(at->text_length), to.ascii_start = told(at->ascii_bytes);
  to.wide_start = to.ascii_start + 16;
  to.text_kind_shift = to.free_threaded && version >= 0x030e ? 8 : 2;
  return true;
}

bool offsets_of_version(std::uint32_t version, offsets& to) noexcept {
  to = {};
  to.version = version;
  to.thread_interpreter = 16;
  switch (version) {
    case 0x0309:
    case 0x030a:
      to.thread_frame = 24, to.frame_previous = 24, to.frame_code = 32;
      to.frame_instruction = version == 0x0309 ? 104 : 96;
      to.code_first_line = 40, to.code_file = 104, to.code_name = 112, to.code_lines = 120;
      to.lines = version == 0x0309 ? lines_of::line_increments : lines_of::line_ranges;
      return true;
    case 0x030b:
      to.thread_frame = 56, to.by_c_frame = true, to.c_frame_frame = 8;
      to.frame_previous = 48, to.frame_code = 32, to.frame_instruction = 56;
      to.code_first_line = 72, to.code_file = 112, to.code_name = 120, to.code_lines = 136;
      to.code_start = 184;
      return true;
    case 0x030c:
      to.thread_frame = 56, to.by_c_frame = true, to.c_frame_frame = 0;
      to.frame_previous = 8, to.frame_code = 0, to.frame_instruction = 56, to.frame_owner = 70;
      to.code_first_line = 68, to.code_file = 112, to.code_name = 120, to.code_lines = 136;
      to.code_start = 192, to.ascii_start = 40, to.wide_start = 56;
      return true;
    default:
      return false;
  }
}

offsets const* find_interpreter() noexcept {
  interpreter seen = interpreter_here.load(std::memory_order_acquire);
  if (seen == interpreter::not_asked &&
      interpreter_here.compare_exchange_strong(seen, interpreter::being_asked)) {
    seen = find(found) ? interpreter::is_known : interpreter::is_unknown;
    interpreter_here.store(seen, std::memory_order_release);
  }
  return seen == interpreter::is_known ? &found : nullptr;  // who comes while another asks goes without
}

void const* state_of_this_thread(offsets const& of, base::own_memory_pieces& memory) noexcept {
  char const* const state = static_cast<char const*>(PyGILState_GetThisThreadState());
  void const* interpreter = nullptr;
  if (state == nullptr || !memory.read_value(state + of.thread_interpreter, interpreter)) return nullptr;
  return interpreter != nullptr && interpreter == PyInterpreterState_Main() ? state : nullptr;
}

types known_types() noexcept {
  return {PyCode_Type, PyUnicode_Type, PyBytes_Type};
}

}  // namespace gpumem::stats::python
