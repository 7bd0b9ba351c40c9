// See libraries.hpp.
#include "core/stats/callers/libraries.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/base/files/object_values.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/stats/page/page_state.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::stats {

constinit thread_local library_memo last_library;

namespace {

constexpr std::uintptr_t code_page = 4096;
constinit base::object_values known_libraries;

// The number of this path, a new one at its first call.
library_id number_of(page& now, library_entry const& library) noexcept {
  locked guard;
  std::uint32_t& count = now.fixed.head.library_count;  // with the unknown one
  for (library_id id = unknown_library + 1; id < count; ++id) {
    if (std::strcmp(now.fixed.libraries[id].path, library.path) == 0) return id;
  }
  library_id const id = std::max<library_id>(count, unknown_library + 1);
  if (id >= other_libraries) {
    std::atomic_ref<std::uint32_t>(count).store(max_libraries, std::memory_order_release);
    return other_libraries;
  }
  now.fixed.libraries[id] = library;
  std::atomic_ref<std::uint32_t>(count).store(id + 1, std::memory_order_release);
  return id;
}

// As the head of the page has it, unless that is too long for an entry and cut elsewhere.
library_entry path_of_program(page const& now) noexcept {
  library_entry program{};
  std::string_view const known(now.fixed.head.exe);
  if (!known.empty() && known.size() < sizeof program.path) {
    std::ranges::copy(known, program.path);
    return program;
  }
  base::uncancelled const held;
  int const saved = errno;
  if (::readlink("/proc/self/exe", program.path, sizeof program.path - 1) <= 0)
    std::strcpy(program.path, "(the program)");
  errno = saved;
  return program;
}

}  // namespace

library_id find_library(void const* code) noexcept {
  page* const now = current_page();
  if (now == nullptr || code == nullptr) return unknown_library;
  auto const address = reinterpret_cast<std::uintptr_t>(code);
  std::uint64_t const since = libraries_changed.load(std::memory_order_acquire);
  auto known = known_libraries.find(address, since);
  if (!known) {
    library_entry library{};
    auto const take = [](std::string_view path, void* taker) {
      auto& to = static_cast<library_entry*>(taker)->path;
      std::memcpy(to, path.data(), std::min(path.size(), sizeof to - 1));
    };
    known.emplace();
    if (base::find_loaded_object(address, known->object, take, &library)) {
      if (library.path[0] == '\0') library = path_of_program(*now);
      known->value = number_of(*now, library);
    } else {  // of no file: not asked again for its neighbours
      std::uintptr_t const begin = address / code_page * code_page;
      *known = {{begin, begin + code_page}, unknown_library};
    }
    if (may_remember_libraries()) known_libraries.remember(*known, since);
  }
  last_library = {known->object.low, known->object.high - known->object.low, since,
                  static_cast<library_id>(known->value)};
  return last_library.id;
}

void make_library_pages() noexcept {
  known_libraries.make_pages();
}

void look_again_if_changed() noexcept {
  if (last_library.since != libraries_changed.load(std::memory_order_acquire)) last_library = {};
}

}  // namespace gpumem::stats
