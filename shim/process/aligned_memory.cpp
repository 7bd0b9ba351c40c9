// operator new for types aligned above what malloc promises, from malloc: libstdc++'s takes them from
// aligned_alloc. A program that has a malloc of its own may have malloc, calloc, realloc and free alone,
// which is all that libc asks of one; aligned_alloc is libc's then, and what it gives ends the program in the
// other's free. Called by the library's own code on any thread; hidden, so that the program's C++ library
// never meets it.
#include <cstddef>
#include <cstdint>
#include <new>

#include "core/base/threads/heap.hpp"

namespace {

// Where the block of malloc begins is noted before the address that is given.
struct note {
  void* begin;
};

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  std::size_t const more = alignment - 1 + sizeof(note);
  if (bytes > SIZE_MAX - more) return nullptr;
  void* const begin = gpumem::base::heap::allocate(bytes + more);
  if (begin == nullptr) return nullptr;
  auto const low = reinterpret_cast<std::uintptr_t>(begin);
  auto const offset = ((low + more) & ~std::uintptr_t{alignment - 1}) - low;
  auto* const given = static_cast<std::byte*>(begin) + offset;
  reinterpret_cast<note*>(given)[-1].begin = begin;
  return given;
}

}  // namespace

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  void* const memory = allocate(bytes, static_cast<std::size_t>(alignment));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, std::align_val_t alignment, std::nothrow_t const&) noexcept {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory, std::align_val_t) noexcept {
  if (memory != nullptr) gpumem::base::heap::release(static_cast<note*>(memory)[-1].begin);
}
