// See block_table.hpp.
#include "core/space/block_table.hpp"

#include <sys/mman.h>

#include <new>

namespace gpumem::space {

block_table::block_table() noexcept {
  // 3 GiB of addresses hold 2^26 blocks; a process under `ulimit -v` gets what there is.
  for (std::uint64_t count = 1ull << 26; count >= 1ull << 12; count /= 2) {
    void* memory = mmap(nullptr, count * sizeof(block), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    madvise(memory, count * sizeof(block),
            MADV_NOHUGEPAGE);  // a huge page would cost 2 MiB for the first block
    blocks_ = static_cast<block*>(memory);
    capacity_ = count;
    return;
  }
}

// Blocks made one after the other often go to different threads, which then write to them at each allocation
// and free: within a window of 4096 handles they are dealt out four apart, which is three cache lines.
handle block_table::spread(handle ordinal) noexcept {
  constexpr handle window = 4096;
  constexpr handle apart = 4;
  handle const at = ordinal % window;
  return ordinal - at + at % (window / apart) * apart + at / (window / apart);
}

handle block_table::acquire() noexcept {
  std::lock_guard lock(mutex_);
  handle h = free_;
  if (h != none) {
    free_ = blocks_[h].next;
  } else if (used_ < capacity_) {
    h = spread(static_cast<handle>(used_++));
  } else {
    return none;
  }
  block& b = blocks_[h];
  b.address.store(0, std::memory_order_relaxed);
  b.before = b.after = b.next = b.previous = b.later = b.earlier = none;
  b.units = b.segment = b.freed = 0;
  b.where = done;
  b.mapped = b.exported = 0;
  return h;
}

void block_table::release(handle h) noexcept {
  std::lock_guard lock(mutex_);
  blocks_[h].now.store(state::unused, std::memory_order_relaxed);
  blocks_[h].next = free_;
  free_ = h;
}

}  // namespace gpumem::space
