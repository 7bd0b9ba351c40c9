// What a resource remembers of each block, by handle: for adaptors, whose blocks belong to another
// resource. One reserved range of addresses, zero at first, whose pages appear when first used. Access
// takes no lock: the entry of a live block belongs to whoever has the block.
#pragma once

#include <atomic>
#include <type_traits>

#include "core/space/blocks/block_table.hpp"
#include "core/space/blocks/table_pages.hpp"

namespace gpumem::space {

template <typename Value>
class side_table {
  static_assert(std::is_trivially_copyable_v<Value>);

 public:
  side_table() noexcept
      : pages_(block_table::most, sizeof(Value)), values_(static_cast<Value*>(pages_.begin())) {}
  side_table(side_table const&) = delete;
  ~side_table() { pages_.unmap(); }

  // For a block being handed out. Null when the table is too short for it.
  Value* make(handle h) noexcept {
    if (!pages_.open(h + std::uint64_t{1})) return nullptr;
    pages_.prepare(h);
    handle seen = highest_.load(std::memory_order_relaxed);
    while (seen < h && !highest_.compare_exchange_weak(seen, h, std::memory_order_relaxed)) {
    }
    return &values_[h];
  }
  // Null where nothing was ever made.
  Value* find(handle h) noexcept {
    return h <= highest_.load(std::memory_order_relaxed) ? &values_[h] : nullptr;
  }

 private:
  table_pages pages_;
  Value* const values_;
  std::atomic<handle> highest_{0};
};

}  // namespace gpumem::space
