// The memory of a table by handle: addresses reserved at once, zero pages that appear when first used. Only
// what was opened is writable, as that much counts for `ulimit -d`, which the program's own malloc lives by
// as well. Constructed once; open and prepare are called by any thread, also under a resource's lock. Never
// unmapped but by whoever calls unmap.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/space/blocks/spin_lock.hpp"

namespace gpumem::space {

class table_pages {
 public:
  // Room for `most` entries of `size` bytes; half of that and so on where addresses are scarce.
  table_pages(std::uint64_t most, std::uint64_t size) noexcept;
  table_pages(table_pages const&) = delete;
  void unmap() noexcept;

  void* begin() const noexcept { return begin_; }
  std::uint64_t capacity() const noexcept { return capacity_; }
  // Makes the entries before `end` writable; false where the system refuses.
  bool open(std::uint64_t end) noexcept {
    return end <= opened_.load(std::memory_order_acquire) || open_more(end);
  }
  // This entry, which is open, is about to be used for the first time: its page and some after it, at most as
  // many as were made so, come by one system call, not by a fault each.
  void prepare(std::uint64_t entry) noexcept {
    if ((entry + 1) * size_ > made_.load(std::memory_order_relaxed)) make_pages(entry * size_);
  }

 private:
  bool open_more(std::uint64_t end) noexcept;
  void make_pages(std::uint64_t offset) noexcept;

  char* begin_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t size_;
  std::atomic<std::uint64_t> opened_{0};  // entries
  std::atomic<std::uint64_t> made_{0};    // bytes
  spin_lock opening_;
};

}  // namespace gpumem::space
