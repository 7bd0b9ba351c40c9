// See kept_heap.hpp.
#include "core/base/kept_heap.hpp"

#include <atomic>
#include <cstdlib>

namespace gpumem::base {

namespace {

constexpr std::size_t page_bytes = 4096;
constinit std::atomic<void*> kept{nullptr};

}  // namespace

void keep_heap(std::size_t bytes) noexcept {
  if (kept.load(std::memory_order_relaxed) != nullptr) return;
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) return;
  for (std::size_t at = 0; at < bytes; at += page_bytes) static_cast<char volatile*>(memory)[at] = '\0';
  kept.store(memory, std::memory_order_release);
}

void give_up_kept_heap() noexcept {
  std::free(kept.exchange(nullptr, std::memory_order_acquire));
}

}  // namespace gpumem::base
