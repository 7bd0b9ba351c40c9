// See group_memory.hpp. The files: "Memory Interface Files" in the kernel's cgroup-v2.rst, "memory.txt" for
// version 1.
#include "core/upstream/host/group_memory.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/small_file.hpp"

namespace gpumem::upstream {

namespace {

constexpr std::uint64_t unlimited = ~std::uint64_t{0};
constexpr std::size_t longest_path = 1024;

struct files {
  char const* mount;
  char const* limit;
  char const* usage;
  char const* cache;  // a line of memory.stat: what the kernel drops before it kills anybody
};
constexpr files second = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};
constexpr files hybrid = {"/sys/fs/cgroup/unified", second.limit, second.usage, second.cache};
constexpr files first = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                         "total_inactive_file "};

// One group and those above it, up to the root of the mount.
class group {
 public:
  group(char const* root, files const& names, char const* path, int length) noexcept : names_(names) {
    int const made = std::snprintf(at_, sizeof at_, "%s%s", root, names.mount);
    mount_ = static_cast<std::size_t>(made);
    int const whole = std::snprintf(at_ + mount_, sizeof at_ - mount_, "%.*s", length, path);
    bool const is_root = whole == 1;  // "/", which the mount is
    if (is_root || mount_ + static_cast<std::size_t>(whole) >= sizeof at_) at_[mount_] = '\0';
  }
  void narrow(host_memory::amount& to) noexcept {
    for (;;) {
      std::uint64_t const limit = number(names_.limit);
      if (limit != unlimited) {
        std::uint64_t const used = number(names_.usage), cache = std::min(used, dropped_first());
        std::uint64_t const kept = used == unlimited ? 0 : used - cache;
        to.total = std::min(to.total, limit);
        to.available = std::min(to.available, limit - std::min(limit, kept));
      }
      char* const last = std::strrchr(at_ + mount_, '/');
      if (last == nullptr) return;
      *last = '\0';
    }
  }

 private:
  template <std::size_t Size>
  bool read_file(char const* name, char (&text)[Size]) const noexcept {
    char path[longest_path + 32];
    std::snprintf(path, sizeof path, "%s/%s", at_, name);
    return base::read_small_file(path, text);
  }
  // "max": none.
  std::uint64_t number(char const* name) const noexcept {
    char text[32];
    if (!read_file(name, text) || text[0] < '0' || text[0] > '9') return unlimited;
    return std::strtoull(text, nullptr, 10);
  }
  std::uint64_t dropped_first() const noexcept {
    char text[4096];
    if (!read_file("memory.stat", text)) return 0;
    char const* const line = std::strstr(text, names_.cache);
    return line != nullptr ? std::strtoull(line + std::strlen(names_.cache), nullptr, 10) : 0;
  }

  files const& names_;
  std::size_t mount_ = 0;
  char at_[longest_path];
};

// A line of /proc/self/cgroup is number:controllers:path; the second version has no controllers.
bool is_of_memory(char const* controllers, char const* end) noexcept {
  constexpr char name[] = "memory";
  for (char const* at = controllers; at < end;) {
    char const* const comma = std::find(at, end, ',');
    if (comma - at == sizeof name - 1 && std::memcmp(at, name, sizeof name - 1) == 0) return true;
    at = comma + 1;
  }
  return false;
}

}  // namespace

host_memory::amount measure_groups(char const* root) noexcept {
  host_memory::amount least{unlimited, unlimited};
  char path[longest_path];
  std::snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  char text[4096];
  if (!base::read_small_file(path, text)) return least;
  for (char const* line = text; *line != '\0';) {
    char const* const end = std::find(line, static_cast<char const*>(text) + std::strlen(text), '\n');
    char const* const controllers = std::find(line, end, ':');
    char const* const colon = controllers < end ? std::find(controllers + 1, end, ':') : end;
    if (colon < end) {
      int const length = static_cast<int>(end - colon - 1);
      if (colon == controllers + 1) {
        group(root, second, colon + 1, length).narrow(least);
        group(root, hybrid, colon + 1, length).narrow(least);
      } else if (is_of_memory(controllers + 1, colon)) {
        group(root, first, colon + 1, length).narrow(least);
      }
    }
    line = *end == '\n' ? end + 1 : end;
  }
  return least;
}

}  // namespace gpumem::upstream
