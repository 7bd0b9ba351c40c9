// An allocator for small containers in places that cannot fail. Takes from the heap; when that has nothing
// more, from a few pages kept for it and never given back. Out of memory only when these are used up. Any
// thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>

namespace gpumem::base {

// Null when it is used up, or `bytes` are too many for it.
void* take_from_reserve(std::size_t bytes) noexcept;
bool is_of_reserve(void const* memory) noexcept;

template <typename Value>
struct sure_allocator {
  using value_type = Value;

  sure_allocator() noexcept = default;
  template <typename Other>
  sure_allocator(sure_allocator<Other> const&) noexcept {}

  Value* allocate(std::size_t count) {
    void* memory = ::operator new(count * sizeof(Value), std::nothrow);
    if (memory == nullptr) memory = take_from_reserve(count * sizeof(Value));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<Value*>(memory);
  }
  void deallocate(Value* memory, std::size_t) noexcept {
    if (!is_of_reserve(memory)) ::operator delete(memory);
  }
  bool operator==(sure_allocator const&) const = default;
};

}  // namespace gpumem::base
