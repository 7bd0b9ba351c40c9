// See kept_heap.hpp.
#include "core/base/threads/kept_heap.hpp"

#include <atomic>

#include "core/base/threads/heap.hpp"

namespace gpumem::base {

namespace {

constexpr std::size_t page_of_heap = 4096;
constinit std::atomic<void*> kept_block{nullptr};

}  // namespace

void keep_heap(std::size_t bytes) noexcept {
  if (kept_block.load(std::memory_order_relaxed) != nullptr) return;
  void* const memory = heap::allocate(bytes);
  if (memory == nullptr) return;
  for (std::size_t at = 0; at < bytes; at += page_of_heap) static_cast<char volatile*>(memory)[at] = '\0';
  kept_block.store(memory, std::memory_order_release);
}

void give_up_kept_heap() noexcept {
  heap::release(kept_block.exchange(nullptr, std::memory_order_acquire));
}

}  // namespace gpumem::base
