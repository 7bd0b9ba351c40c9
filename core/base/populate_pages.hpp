// Makes the pages of a mapping, which else appear by a fault each when they are first written. Any thread;
// leaves errno as it was.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>

namespace gpumem::base {

// `begin` is the begin of a page. False: the kernel is older than Linux 5.14, or has no memory for all of
// them.
inline bool populate_pages(void* begin, std::size_t bytes) noexcept {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE
  int const saved = errno;
  bool const made = ::madvise(begin, bytes, populate_write) == 0;
  errno = saved;
  return made;
}

}  // namespace gpumem::base
