// What a resource remembers of each block, by handle: for adaptors, whose blocks belong to another
// resource. One reserved range of addresses, zero at first, whose pages appear when first used. Access
// takes no lock: the entry of a live block belongs to whoever has the block.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <type_traits>

#include "core/base/threads/address_room.hpp"
#include "core/space/block_table.hpp"

namespace gpumem::space {

template <typename Value>
class side_table {
  static_assert(std::is_trivially_copyable_v<Value>);

 public:
  side_table() noexcept {
    std::uint64_t const room = base::address_room(block_table::most * sizeof(Value));
    for (std::uint64_t count = block_table::most; count >= 1ull << 12; count /= 2) {
      if (count * sizeof(Value) > room && count > 1ull << 12) continue;
      void* const memory = mmap(nullptr, count * sizeof(Value), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) continue;
      madvise(memory, count * sizeof(Value), MADV_NOHUGEPAGE);
      values_ = static_cast<Value*>(memory);
      capacity_ = count;
      return;
    }
  }
  side_table(side_table const&) = delete;
  ~side_table() {
    if (values_ != nullptr) munmap(values_, capacity_ * sizeof(Value));
  }

  // For a block being handed out. Null when the table is too short for it.
  Value* make(handle h) noexcept {
    if (h >= capacity_) return nullptr;
    handle seen = highest_.load(std::memory_order_relaxed);
    while (seen < h && !highest_.compare_exchange_weak(seen, h, std::memory_order_relaxed)) {
    }
    return &values_[h];
  }
  // Null where nothing was ever made.
  Value* find(handle h) noexcept {
    return h <= highest_.load(std::memory_order_relaxed) ? &values_[h] : nullptr;
  }
  template <typename Visit>
  void each(Visit visit) noexcept {
    handle const last = highest_.load(std::memory_order_relaxed);
    for (handle h = 1; h <= last; ++h) visit(h, values_[h]);
  }

 private:
  Value* values_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::atomic<handle> highest_{0};
};

}  // namespace gpumem::space
