// What the upstream `system` and the bounds of host memory ask of the operating system: pages, and how much
// there is. An interface, so that tests can put a host of another size in its place. Called on slow paths,
// from any thread. No heap.
#pragma once

#include <cstdint>

namespace gpumem::upstream {

class host_memory {
 public:
  struct amount {
    std::uint64_t available;  // without swapping, by the kernel's own estimate
    std::uint64_t total;
  };
  // How much memory the host has, in bytes, and its control groups leave this process.
  virtual amount measure() noexcept = 0;
  // Zeroed pages at a multiple of `alignment`, both multiples of page(); 0: refused.
  virtual std::uint64_t map(std::uint64_t bytes, std::uint64_t alignment) noexcept = 0;
  virtual void unmap(std::uint64_t address, std::uint64_t bytes) noexcept = 0;

  static std::uint64_t page() noexcept;
  static host_memory& of_this_machine() noexcept;

 protected:
  ~host_memory() = default;
};

}  // namespace gpumem::upstream
