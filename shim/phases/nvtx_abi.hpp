// What a tool and the copies of NVTX in a program's libraries say to each other, as nvtx3 has it
// (nvtxTypes.h, nvToolsExt.h). Written down here so that the build needs no nvtx3; tests compare it with the
// real headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumem::shim::nvtx {

using function = void (*)();
using function_table = function**;  // of pointers to the functions of one copy of NVTX; 0 is none's place
using export_table = void const* (*)(std::uint32_t id);
using initializer = int (*)(export_table);
inline constexpr std::uint32_t callbacks_id = 1;

struct export_callbacks {
  std::size_t struct_size;
  int (*get_table)(int module, function_table* found, unsigned* size);
};

enum module : int { core = 1, core2 = 5, modules = 7 };
namespace in_core {
enum { start_ex = 4, start_a, start_w, end, push_ex, push_a, push_w, pop };
}
namespace in_core2 {
enum { start_ex = 2, end, push_ex, pop, register_a = 10, register_w, create_a, create_w, destroy };
}

using range_id = std::uint64_t;
using domain = void*;      // opaque; null: the default one
using registered = void*;  // a string

struct attributes {
  std::uint16_t version;
  std::uint16_t size;
  std::uint32_t category;
  std::int32_t color_type;
  std::uint32_t color;
  std::int32_t payload_type;
  std::int32_t reserved;
  std::uint64_t payload;
  std::int32_t message_type;
  union {
    char const* ascii;
    wchar_t const* wide;
    registered string;
  } message;
};
static_assert(sizeof(attributes) == 48);
enum : std::int32_t { no_message = 0, ascii_message = 1, wide_message = 2, registered_message = 3 };

}  // namespace gpumem::shim::nvtx
