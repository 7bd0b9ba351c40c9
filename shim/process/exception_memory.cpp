// Memory of the exceptions that the library throws, in place of libstdc++'s (eh_alloc.cc), which takes 72 KiB
// of heap at the start of every process. Called by the C++ runtime linked into the library, on any thread;
// hidden, so that the program's own C++ library never meets it. From the heap; where that has none, as for
// std::bad_alloc, from a reserve that is untouched until then. An exception for which both have no room ends
// the process, as with libstdc++.
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>

#include "core/base/threads/heap.hpp"

namespace {

// The runtime's header stands before the exception, and is what a dependent exception is: 112 to 128 bytes in
// all versions of libstdc++ for 64 bits. Room for twice as much.
constexpr std::size_t header_bytes = 256;

class reserve {
 public:
  // All zero, or nullptr.
  void* take(std::size_t bytes) noexcept {
    if (bytes > slot_bytes) return nullptr;
    std::uint64_t seen = taken_.load(std::memory_order_relaxed);
    while (seen != UINT64_MAX) {
      std::uint64_t const lowest_free = ~seen & (seen + 1);
      if (!taken_.compare_exchange_weak(seen, seen | lowest_free, std::memory_order_acquire)) continue;
      return std::memset(slots_[std::countr_zero(lowest_free)], 0, slot_bytes);
    }
    return nullptr;
  }
  // False: it is not from here.
  bool give_back(void* memory) noexcept {
    auto const offset = reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(slots_);
    if (offset >= sizeof slots_) return false;
    taken_.fetch_and(~(std::uint64_t{1} << (offset / slot_bytes)), std::memory_order_release);
    return true;
  }

 private:
  static constexpr std::size_t slot_bytes = 1024;
  static constexpr std::size_t slots = std::numeric_limits<std::uint64_t>::digits;

  alignas(std::max_align_t) std::byte slots_[slots][slot_bytes]{};
  std::atomic<std::uint64_t> taken_ = 0;
};

constinit reserve last_resort;

void* allocate(std::size_t bytes) noexcept {
  if (void* const memory = gpumem::base::heap::allocate_zeroed(1, bytes)) return memory;
  if (void* const memory = last_resort.take(bytes)) return memory;
  std::terminate();
}

void release(void* memory) noexcept {
  if (!last_resort.give_back(memory)) gpumem::base::heap::release(memory);
}

}  // namespace

extern "C" {

void* __cxa_allocate_exception(std::size_t bytes) noexcept {
  return static_cast<std::byte*>(allocate(header_bytes + bytes)) + header_bytes;
}
void __cxa_free_exception(void* exception) noexcept {
  release(static_cast<std::byte*>(exception) - header_bytes);
}
void* __cxa_allocate_dependent_exception() noexcept {
  return allocate(header_bytes);
}
void __cxa_free_dependent_exception(void* exception) noexcept {
  release(exception);
}
}
