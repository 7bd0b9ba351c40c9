// See host_memory.hpp.
#include "core/upstream/host/host_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/base/small_file.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/upstream/host/group_memory.hpp"

namespace gpumem::upstream {

namespace {

// A line of /proc/meminfo, in bytes; unlimited where it is not there.
std::uint64_t field(char const* text, char const* name) noexcept {
  char const* const at = std::strstr(text, name);
  return at != nullptr ? std::strtoull(at + std::strlen(name), nullptr, 10) << 10 : ~std::uint64_t{0};
}

class operating_system final : public host_memory {
 public:
  amount measure() noexcept override {
    base::uncancelled const held;
    char text[512];  // both are among the first lines
    base::read_small_file("/proc/meminfo", text);
    amount const groups = measure_groups();
    return {std::min(field(text, "MemAvailable:"), groups.available),
            std::min(field(text, "MemTotal:"), groups.total)};
  }

  std::uint64_t map(std::uint64_t bytes, std::uint64_t alignment) noexcept override {
    std::uint64_t const more = alignment - page();
    if (bytes > ~std::uint64_t{0} - more) return 0;
    void* const made =
        mmap(nullptr, bytes + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return 0;
    auto const begin = reinterpret_cast<std::uint64_t>(made);
    std::uint64_t const address = (begin + more) / alignment * alignment;
    if (address > begin) unmap(begin, address - begin);
    if (begin + more > address) unmap(address + bytes, begin + more - address);
    return address;
  }

  void unmap(std::uint64_t address, std::uint64_t bytes) noexcept override {
    munmap(reinterpret_cast<void*>(address), bytes);
  }
};

constinit operating_system machine;

}  // namespace

std::uint64_t host_memory::page() noexcept {
  return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

host_memory& host_memory::of_this_machine() noexcept {
  return machine;
}

}  // namespace gpumem::upstream
