// address -> block, for every block that was ever handed to the program and still has its place. Look-ups
// take no lock and are the first thing every free does; inserts and erases happen only when blocks are split
// or merged. A look-up of a block that the caller rightfully holds always succeeds; of anything else it may
// miss, never crash. Open addressing over 32-bit handles, in shards. Tables are never given back to the heap
// but may be reused by a later rebuild, so a reader compares the shard's count of rebuilds before and after,
// and repeats when it was overtaken.
// A handle leaves six bits of its entry to a tag of the address: other blocks that only share the way to it
// are passed without a look at them, which would be a miss of the cache each.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "core/space/block_table.hpp"
#include "core/space/spin_lock.hpp"

namespace gpumem::space {

class block_map {
 public:
  explicit block_map(block_table& blocks) noexcept : blocks_(blocks) {}

  handle find(std::uint64_t address) const noexcept;
  // False when no memory was left for the table; the block is then not findable and must not be handed out.
  bool insert(handle h) noexcept;
  void erase(handle h) noexcept;

 private:
  static constexpr unsigned handle_bits = 26;
  static_assert(block_table::most <= handle{1} << handle_bits);
  static constexpr std::uint32_t empty = 0;
  static constexpr std::uint32_t tombstone = 1u << handle_bits;  // no handle, and a tag

  // Size and entries travel together: a reader must never see one table's mask with another's entries.
  struct table {
    std::uint64_t mask = 0;
    std::atomic<std::uint32_t>* entries = nullptr;
    std::atomic<std::uint32_t>& at(std::uint64_t i) const noexcept { return entries[i & mask]; }
  };

  struct alignas(64) shard {
    std::atomic<std::uint64_t> rebuilds{0};
    std::atomic<table*> present{nullptr};
    spin_lock lock;
    std::uint64_t live = 0;
    std::uint64_t used = 0;  // live and tombstones
    table* spare = nullptr;  // of the same size, for rebuilds that only sweep tombstones
  };

  // Addresses of the same 8 KiB have their entries in one cache line: small blocks are often freed in the
  // order in which they were made. Which entry of the line differs from line to line, as the addresses of
  // large blocks are round.
  static constexpr unsigned line_bits = 4;
  static constexpr std::size_t line_bytes = sizeof(std::uint32_t) << line_bits;
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
  bool rebuild(shard& s) noexcept;

  block_table& blocks_;
  mutable std::array<shard, 64> shards_;
};

}  // namespace gpumem::space
