// A preload library with a malloc as programs bring their own: malloc, calloc, realloc and free, which is
// what libc asks for, and nothing else. Its blocks are never better aligned than 16 bytes, and a free of what
// it did not give ends the process, as with most of them. OWN_MALLOC_CANCELS=1: both are points of
// cancellation, as those of Electric Fence and of heap tracers. Any thread.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cstddef>

extern "C" {
void* __libc_malloc(size_t);
void __libc_free(void*);
}

namespace {

constexpr uint64_t given = 0x6f776e206d616c6c;
constexpr uint64_t taken_back = 0x66726565642e2e2e;

// Before each block; the block is at an odd multiple of 16.
struct head {
  uint64_t mark;
  uint32_t bytes_from_begin;
  uint32_t unused;
  size_t bytes;
  size_t more;
};

head& head_of(void* block) noexcept {
  return static_cast<head*>(block)[-1];
}

[[noreturn]] void refuse() noexcept {
  constexpr char text[] = "own_malloc: free of what it did not give\n";
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  _exit(66);
}

void require_own(void* block) noexcept {
  // Of a block of another malloc the 32 bytes before it are still in some page of its own.
  if (reinterpret_cast<uintptr_t>(block) % 32 != 16 || head_of(block).mark != given) refuse();
}

void may_be_cancelled() {
  static bool const asked = getenv("OWN_MALLOC_CANCELS") != nullptr;
  if (asked) pthread_testcancel();
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) {
  may_be_cancelled();
  size_t const more = sizeof(head) + 32;
  if (bytes > SIZE_MAX - more) return nullptr;
  auto* const begin = static_cast<char*>(__libc_malloc(bytes + more));
  if (begin == nullptr) return nullptr;
  char* block = begin + sizeof(head);
  if (reinterpret_cast<uintptr_t>(block) % 32 == 0) block += 16;
  head_of(block) = {given, static_cast<uint32_t>(block - begin), 0, bytes, 0};
  return block;
}

void free(void* block) {
  may_be_cancelled();
  if (block == nullptr) return;
  require_own(block);
  head_of(block).mark = taken_back;
  __libc_free(static_cast<char*>(block) - head_of(block).bytes_from_begin);
}

void* calloc(size_t count, size_t bytes) {
  if (bytes != 0 && count > SIZE_MAX / bytes) return nullptr;
  void* const block = malloc(count * bytes);
  if (block != nullptr) memset(block, 0, count * bytes);
  return block;
}

void* realloc(void* block, size_t bytes) {
  if (block == nullptr) return malloc(bytes);
  require_own(block);
  void* const moved = malloc(bytes);
  if (moved == nullptr) return nullptr;
  size_t const before = head_of(block).bytes;
  memcpy(moved, block, before < bytes ? before : bytes);
  free(block);
  return moved;
}
}
