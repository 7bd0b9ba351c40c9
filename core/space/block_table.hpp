// All blocks of the process by handle, in one reserved range of addresses whose pages appear when first used.
// acquire and release are called under any resource's lock, from any thread; operator[] takes no lock.
// Never destroyed; a forked child leaves it behind and begins a new one.
#pragma once

#include <mutex>

#include "core/space/block.hpp"

namespace gpumem::space {

class block_table {
 public:
  block_table() noexcept;
  block_table(block_table const&) = delete;

  // A fresh block with every field zero, or `none` when the table is full.
  handle acquire() noexcept;
  void release(handle h) noexcept;
  block& operator[](handle h) noexcept { return blocks_[h]; }

  // Host memory touched so far, for the report.
  std::uint64_t host_bytes() const noexcept { return used_ * sizeof(block); }

 private:
  static handle spread(handle ordinal) noexcept;

  block* blocks_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t used_ = 1;  // handle 0 is `none`
  handle free_ = none;
  std::mutex mutex_;
};

}  // namespace gpumem::space
