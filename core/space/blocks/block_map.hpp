// address -> block, for every block that was handed to the program and still has its place. A look-up takes
// no lock and is the first step of a free; inserts and erases happen only when blocks are split or merged.
// A block that the caller rightfully holds is always found; of others a look-up may miss, never crash. Open
// addressing over 32-bit handles, in shards; six bits of an entry are a tag of the address, so that most
// other blocks are passed without a look. A table is never freed but may be reused by a rebuild: a reader
// compares the shard's count of rebuilds before and after, and repeats.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "core/base/threads/interleave.hpp"
#include "core/space/blocks/block_table.hpp"
#include "core/space/blocks/spin_lock.hpp"

namespace gpumem::space {

class block_map {
 public:
  explicit block_map(block_table& blocks) noexcept : blocks_(blocks) {}

  // The block that begins at the address, or none. No lock.
  handle find(std::uint64_t address) const noexcept;
  // False when no memory was left for the table; the block is then not findable and must not be handed out.
  bool insert(handle h) noexcept;
  // The block has lost its place: it was merged, or its segment removed.
  void erase(handle h) noexcept;

 private:
  static constexpr unsigned handle_bits = 26;
  static_assert(block_table::most <= handle{1} << handle_bits);
  static constexpr std::uint32_t empty = 0;
  static constexpr std::uint32_t tombstone = 1u << handle_bits;  // no handle, and a tag

  // Size and entries travel together: a reader must never see one table's mask with another's entries. At
  // least one entry is empty.
  struct alignas(64) table {
    std::uint64_t mask = 0;
    // mask + 1 of them follow.
    std::atomic<std::uint32_t>& at(std::uint64_t i) noexcept {
      return reinterpret_cast<std::atomic<std::uint32_t>*>(this + 1)[i & mask];
    }
    static table* make(std::uint64_t size) noexcept;
    void let_go() noexcept;
  };
  // Of a shard that has no block yet.
  struct nothing {
    table head;
    std::atomic<std::uint32_t> entry{empty};
  };
  static nothing none_yet;

  struct alignas(64) shard {
    std::atomic<std::uint64_t> rebuilds{0};
    std::atomic<table*> present{&none_yet.head};
    // Apart from what look-ups read.
    alignas(64) spin_lock lock;
    std::uint64_t live = 0;
    std::uint64_t used = 0;  // live and tombstones
    table* spare = nullptr;  // of the same size, for rebuilds that only sweep tombstones
  };

  // Addresses of the same 8 KiB have their entries in one cache line: small blocks are often freed in the
  // order in which they were made. Which entry of the line differs from line to line, as the addresses of
  // large blocks are round.
  static constexpr unsigned line_bits = 4;
  static constexpr std::uint64_t in_line = (1u << line_bits) - 1;

  static std::uint64_t mix(std::uint64_t address) noexcept {
    return (address >> (9 + line_bits)) * 0x9e3779b97f4a7c15ull;
  }
  static std::size_t shard_of(std::uint64_t mixed) noexcept { return mixed >> 58; }
  static std::uint32_t entry_of(std::uint64_t address, std::uint64_t mixed, handle h) noexcept {
    return static_cast<std::uint32_t>((mixed >> 52 ^ address >> 9) << handle_bits) | h;
  }
  static handle handle_in(std::uint32_t entry) noexcept { return entry & ((1u << handle_bits) - 1); }
  static bool same_tag(std::uint32_t one, std::uint32_t other) noexcept {
    return (one ^ other) >> handle_bits == 0;
  }
  static std::uint64_t first(std::uint64_t address, std::uint64_t mixed) noexcept {
    return (mixed >> 20 & ~in_line) | ((address >> 9 ^ mixed >> 48) & in_line);
  }
  // A table without the entries of erased blocks, twice as large where it is half full of live ones; false:
  // no host memory.
  bool rebuild(shard& s) noexcept;

  block_table& blocks_;
  mutable std::array<shard, 64> shards_;
};

inline handle block_map::find(std::uint64_t address) const noexcept {
  std::uint64_t const mixed = mix(address);
  std::uint32_t const like = entry_of(address, mixed, none);
  shard& s = shards_[shard_of(mixed)];
  for (;;) {
    std::uint64_t const rebuilds = s.rebuilds.load(std::memory_order_acquire);
    table& t = *s.present.load(std::memory_order_acquire);
    base::interleave();
    handle found = none;
    for (std::uint64_t i = first(address, mixed);; ++i) {
      std::uint32_t const entry = t.at(i).load(std::memory_order_acquire);
      if (entry == empty) break;
      if (!same_tag(entry, like)) continue;
      base::interleave();
      handle const h = handle_in(entry);
      if (blocks_[h].address.load(std::memory_order_relaxed) == address) {
        found = h;
        break;
      }
    }
    // The entries were read with acquire, so this is read after them. No fence: the thread sanitizer knows
    // none.
    if (s.rebuilds.load(std::memory_order_relaxed) == rebuilds) [[likely]]
      return found;
  }
}

}  // namespace gpumem::space
