// All blocks of the process by handle, in one reserved range of addresses whose pages appear when first
// used. acquire and release are called under any resource's lock, from any thread; released blocks wait in
// several lists and a thread begins at its own, so that threads seldom meet. operator[] takes no lock.
// Never destroyed; a forked child begins a new one.
#pragma once

#include <array>
#include <atomic>

#include "core/space/blocks/block.hpp"
#include "core/space/blocks/spin_lock.hpp"
#include "core/space/blocks/table_pages.hpp"

namespace gpumem::space {

class block_table {
 public:
  static constexpr std::uint64_t most = 1ull << 26;  // blocks

  block_table() noexcept;  // reserves its addresses; memory comes with use
  block_table(block_table const&) = delete;

  // The memory of the first blocks is there from now on.
  void make_first_pages() noexcept;
  // A fresh block with every field zero, or `none` when the table is full.
  handle acquire() noexcept;
  // The handle may name another block from now on.
  void release(handle h) noexcept;
  block& operator[](handle h) noexcept { return blocks_[h]; }
  // Calls `visit` with each handle that was ever acquired; blocks come and go meanwhile.
  template <typename Visit>
  void each(Visit visit) const {
    std::uint64_t const end = used_.load(std::memory_order_acquire);
    for (std::uint64_t ordinal = 1; ordinal < end; ++ordinal) visit(spread(static_cast<handle>(ordinal)));
  }
  // It is about to be read.
  void prefetch(handle h) const noexcept {
    char const* const at = reinterpret_cast<char const*>(blocks_ + h);
    __builtin_prefetch(at);
    __builtin_prefetch(at + sizeof(block) - 1);
  }

 private:
  struct alignas(64) list {
    spin_lock lock;
    std::atomic<handle> first{none};  // read without the lock: is it worth taking?
  };

  // Blocks made one after the other often go to different threads, which then write to them at each
  // allocation and free: within a window of handles they are dealt out so many apart, which is three cache
  // lines, and no two of them in the pair of lines that a processor fetches at once. A wider window would
  // take more memory for the first blocks than is worth it: 192 bytes each until a quarter of it is dealt.
  static constexpr handle window = 1u << 14, apart = 4;
  // Of the block that was made as the n-th.
  handle spread(handle ordinal) const noexcept {
    handle const at = ordinal % window_, dealt = window_ / apart;
    return ordinal - at + at % dealt * apart + at / dealt;
  }
  static std::size_t own_list() noexcept;  // of released handles, by thread
  // `none`: there is no such handle.
  handle take_released() noexcept;
  handle take_fresh() noexcept;

  table_pages pages_;
  block* const blocks_;
  std::uint64_t const capacity_;
  handle const window_;                    // no wider than the table
  std::atomic<std::uint64_t> used_{1};     // handle 0 is `none`
  std::atomic<bool> any_released_{false};  // ever
  std::array<list, 16> free_;
};

}  // namespace gpumem::space
