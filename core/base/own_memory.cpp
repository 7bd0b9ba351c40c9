// See own_memory.hpp.
#include "core/base/own_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace gpumem::base {
namespace {

constexpr std::uintptr_t page_bytes = 4096;

// One page at most: of a range that ends in the middle the kernel need not copy what is there.
std::size_t read_in_page(void const* from, void* to, std::size_t bytes) noexcept {
  iovec const here{to, bytes}, there{const_cast<void*>(from), bytes};
  ssize_t const got = ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0);
  return got < 0 ? 0 : static_cast<std::size_t>(got);
}

}  // namespace

std::size_t read_own_memory(std::span<own_range const> ranges) noexcept {
  if (ranges.empty()) return 0;
  int const saved = errno;
  iovec here[16];
  iovec there[16];
  std::size_t const count = std::min(ranges.size(), std::size(here));
  for (std::size_t i = 0; i < count; ++i) {
    here[i] = {ranges[i].to, ranges[i].bytes};
    there[i] = {const_cast<void*>(ranges[i].from), ranges[i].bytes};
  }
  ssize_t const got = ::process_vm_readv(::getpid(), here, count, there, count, 0);
  errno = saved;
  return got < 0 ? 0 : static_cast<std::size_t>(got);
}

std::size_t read_own_memory(void const* from, void* to, std::size_t bytes) noexcept {
  int const saved = errno;
  std::size_t done = 0;
  while (done < bytes) {
    auto const* const at = static_cast<char const*>(from) + done;
    std::size_t const to_page_end = page_bytes - reinterpret_cast<std::uintptr_t>(at) % page_bytes;
    std::size_t const wanted = std::min(bytes - done, to_page_end);
    std::size_t const got = read_in_page(at, static_cast<char*>(to) + done, wanted);
    done += got;
    if (got != wanted) break;
  }
  errno = saved;
  return done;
}

}  // namespace gpumem::base
