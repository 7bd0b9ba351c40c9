// A block: a run of whole units inside one segment. Blocks of a segment form a chain by address without gaps.
// Blocks live in the block table and are named by 32-bit handles, so that a live block costs 48 bytes.
// Who may write a field is said beside it; "owner" is the resource that holds the segment, under its lock.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/threads/relaxed.hpp"

namespace gpumem::space {

using handle = std::uint32_t;
inline constexpr handle none = 0;

// Sizes and addresses are multiples of this; texture alignment, and the step in which the driver packs small
// blocks.
inline constexpr std::uint64_t unit = 512;

constexpr std::uint64_t units_of(std::uint64_t bytes) noexcept {
  return (bytes + unit - 1) / unit;
}

enum class state : std::uint8_t {
  unused,  // the handle is in the table's free list
  live,    // the program has it
  cached,  // in a magazine: freed, exact size kept, found without the owner's lock
  idle,    // in an index of its region, may be split and merged
  hole,    // addresses without memory, in a segment that has pages (region, add_range)
};

// When a freed block was freed: the number of the open epoch (stream_order/epochs). Wraps; compare by
// difference.
using epoch_id = std::uint32_t;

// Which index an idle block is in, hence who may take it.
using free_list_id = std::uint16_t;
inline constexpr free_list_id done = 0;     // all work is known to be done: anyone
inline constexpr free_list_id pending = 1;  // freed without a stream: nobody yet
// freed on stream slot k: free list first_stream + k, later work of that stream
inline constexpr free_list_id first_stream = 2;
// Another process may have it open: nobody, until its segment goes back. No stream has slot 0.
inline constexpr free_list_id withheld = first_stream;

// What else holds of a block.
using marks = std::uint8_t;
inline constexpr marks mapped = 1;    // the block map knows it; owner
inline constexpr marks exported = 2;  // shared by IPC, so its memory serves nobody else; set while live
inline constexpr marks altered = 4;   // the program set something on it, to be undone when it is freed
inline constexpr marks counted = 8;   // stands in the figures of its device's default pool
inline constexpr marks named = 16;    // the program knows a number of it (route/identities)
inline constexpr marks pooled = 32;   // of a pool that the program made (route/program_pools)
// Large, and its size has not come back since a free before: where it is empty its segment goes back; set
// while live.
inline constexpr marks unproven = 64;
inline constexpr marks sampled = 128;  // a sample of who holds memory stands for it and others
// a free must look closer
inline constexpr marks to_be_undone = exported | altered | counted | named | pooled | unproven;
inline constexpr marks rare = to_be_undone | sampled;

// What a request and a free look at comes first: 32 of the 48 bytes, of which three blocks in four have all
// in one cache line.
struct block {
  std::atomic<std::uint64_t> address;  // read without a lock by look-ups
  base::relaxed<std::uint32_t> units;
  base::relaxed<std::uint32_t> segment;  // index in the segment table
  union {
    epoch_id freed;        // not live: when
    std::uint32_t holder;  // live: stats::holder_place of who asked; not of the host's memory
  };
  handle next;  // list of an index, or of a magazine
  union {
    base::relaxed<handle> later;            // idle and not done: queue by age; owner
    base::relaxed<std::uint32_t> rounding;  // live: bytes handed out minus bytes asked for
  };
  // idle: its index; live: the slot of the stream that it was asked for on, or in_some_order; 0: none
  base::relaxed<free_list_id> where;
  std::atomic<state> now;
  std::atomic<marks> marked;
  handle before;  // neighbours by address; owner
  handle after;
  handle previous;
  handle earlier;

  bool is(marks any) const noexcept { return (marked.load(std::memory_order_relaxed) & any) != 0; }
  // What was marked before.
  marks mark(marks as) noexcept { return marked.fetch_or(as, std::memory_order_acq_rel); }
  marks unmark(marks as) noexcept {
    return marked.fetch_and(static_cast<marks>(~as), std::memory_order_acq_rel);
  }
  std::uint64_t bytes() const noexcept { return units * unit; }
  std::uint64_t begin() const noexcept { return address.load(std::memory_order_relaxed); }
  std::uint64_t end() const noexcept { return begin() + bytes(); }
};
static_assert(sizeof(block) == 48);

}  // namespace gpumem::space
