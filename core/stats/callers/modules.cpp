// See modules.hpp.
#include "core/stats/callers/modules.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/base/files/loaded_part.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/stats/page/page_state.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::stats {
namespace {

// One line: "7f00-7f40 r-xp 00001000 08:01 1234   /usr/lib/libx.so"
bool parse_line(char const* line, std::uint64_t address, module_entry& found) noexcept {
  char* at = nullptr;
  found.begin = std::strtoull(line, &at, 16);
  if (*at != '-') return false;
  found.end = std::strtoull(at + 1, &at, 16);
  if (address < found.begin || address >= found.end) return false;
  char const* rest = std::strchr(at + 1, ' ');
  if (rest == nullptr) return false;
  found.file_offset = std::strtoull(rest + 1, &at, 16);
  char const* const path = std::strchr(at, '/');
  if (path == nullptr) return false;
  std::size_t const length = std::min(std::strlen(path), sizeof found.path - 1);
  std::memcpy(found.path, path, length);
  found.path[length] = '\0';
  return true;
}

// Where code lay that is of no file: the kernel is not asked again for its neighbours.
struct nameless_range {
  std::atomic<std::uint64_t> begin{0}, end{0};
};
constinit std::array<nameless_range, 64> nameless{};
constinit std::atomic<std::size_t> nameless_seen{0};

bool is_nameless(std::uint64_t address) noexcept {
  for (auto const& one : nameless) {
    if (address >= one.begin.load(std::memory_order_acquire) && address < one.end.load()) return true;
  }
  return false;
}

void note_nameless(std::uint64_t address) noexcept {
  constexpr std::uint64_t around = 64 * 1024;  // of generated code; the file of a library begins elsewhere
  auto& one = nameless[nameless_seen.fetch_add(1, std::memory_order_relaxed) % nameless.size()];
  one.end.store(0);
  one.begin.store(address / around * around);
  one.end.store(address / around * around + around);
}

// What the loader knows takes a microsecond: the kernel's list is a millisecond's work in a process
// with many libraries (H100, CuPy: 0.9 to 1.3 ms for one new stack), in the middle of a request.
bool ask_loader(page const& now, std::uint64_t address, module_entry& found) noexcept {
  base::loaded_part part;
  if (!base::find_loaded_part(address, part)) return false;
  std::string_view const path(*part.path != '\0' ? part.path : now.fixed.head.exe);
  if (path.empty() || path.front() != '/' || path.size() >= sizeof found.path) return false;
  found = {.begin = part.begin, .end = part.end, .file_offset = part.file_offset, .path = {}};
  std::memcpy(found.path, path.data(), path.size());
  return true;
}

bool ask_kernel(std::uint64_t address, module_entry& found) noexcept {
  base::uncancelled const whole;
  int const saved = errno;
  int const descriptor = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  char buffer[4096];
  std::size_t held = 0;
  bool known = false;
  while (descriptor >= 0 && !known) {
    ssize_t const got = ::read(descriptor, buffer + held, sizeof buffer - 1 - held);
    if (got <= 0) break;
    held += static_cast<std::size_t>(got);
    char* line = buffer;
    for (;;) {
      auto* const end =
          static_cast<char*>(std::memchr(line, '\n', held - static_cast<std::size_t>(line - buffer)));
      if (end == nullptr) break;
      *end = '\0';
      known = known || parse_line(line, address, found);
      line = end + 1;
    }
    held -= static_cast<std::size_t>(line - buffer);
    std::memmove(buffer, line, held);
    if (held == sizeof buffer - 1) held = 0;  // a line longer than any path: passed over
  }
  if (descriptor >= 0) ::close(descriptor);
  errno = saved;
  return known;
}

module_entry const* known_module(page& now, std::uint64_t address) noexcept {
  std::uint32_t const count =
      std::atomic_ref<std::uint32_t>(now.fixed.head.module_count).load(std::memory_order_acquire);
  for (std::uint32_t i = count; i-- > 0;) {  // the newest first: it has taken the place of an older one
    module_entry const& one = now.callers.modules[i];
    if (address >= one.begin && address < one.end) return &one;
  }
  return nullptr;
}

}  // namespace

bool open_caller_tables() noexcept {
  page* const now = current_page();
  if (now == nullptr) return false;
  locked guard;
  std::atomic_ref<std::uint32_t> const open(now->fixed.head.sites_in_use);
  if (open.load(std::memory_order_relaxed) != 0) return true;
  back_part(*now, &now->callers, sizeof now->callers);
  open.store(1, std::memory_order_release);
  return true;
}

module_entry const* module_of(void const* address) noexcept {
  page* const now = current_page();
  auto const at = reinterpret_cast<std::uint64_t>(address);
  if (now == nullptr || address == nullptr) return nullptr;
  if (std::atomic_ref<std::uint32_t>(now->fixed.head.sites_in_use).load(std::memory_order_acquire) == 0)
    return nullptr;
  if (auto const* known = known_module(*now, at); known != nullptr) return known;
  bool const full = std::atomic_ref(now->fixed.head.module_count).load() == max_modules;
  if (full || is_nameless(at)) return nullptr;
  module_entry found{};
  if (!ask_loader(*now, at, found) && !ask_kernel(at, found)) {
    note_nameless(at);
    return nullptr;
  }
  locked guard;
  if (auto const* known = known_module(*now, at); known != nullptr) return known;
  std::uint32_t& count = now->fixed.head.module_count;
  if (count == max_modules) return nullptr;
  now->callers.modules[count] = found;
  std::atomic_ref<std::uint32_t>(count).store(count + 1, std::memory_order_release);
  return &now->callers.modules[count - 1];
}

}  // namespace gpumem::stats
