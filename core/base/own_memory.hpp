// Reads memory of this process that may not be there, or not be what it is taken for: the structures of an
// interpreter whose version is guessed, or that ends in another thread. The kernel copies, so that a wrong
// address is an answer and not a crash. Any thread, no heap; a system call each. Where a sandbox forbids the
// call, nothing can be read.
#pragma once

#include <cstddef>
#include <span>

namespace gpumem::base {

// How many bytes could be read, from the first on; the part behind them is as it was.
std::size_t read_own_memory(void const* from, void* to, std::size_t bytes) noexcept;

// Several ranges, each within a page, in one system call: how many bytes could be read, of one after the
// other. At most 16.
struct own_range {
  void const* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;
};
std::size_t read_own_memory(std::span<own_range const> ranges) noexcept;

template <typename value>
bool read_own(void const* from, value& to) noexcept {
  return read_own_memory(from, &to, sizeof to) == sizeof to;
}

}  // namespace gpumem::base
