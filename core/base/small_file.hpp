// The text of a file of the kernel's, such as those below /proc and /sys, as far as a buffer holds it. Any
// thread, slow paths; open() and read() are cancellation points, which the caller sees to. No heap.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>

namespace gpumem::base {

// Ends in NUL. False, and an empty text, where it cannot be read, or nothing is in it.
template <std::size_t Size>
bool read_small_file(char const* path, char (&text)[Size]) noexcept {
  text[0] = '\0';
  int const file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t const length = ::read(file, text, Size - 1);
  ::close(file);
  text[length > 0 ? length : 0] = '\0';
  return length > 0;
}

}  // namespace gpumem::base
