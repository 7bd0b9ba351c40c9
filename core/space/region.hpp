// The space of one suballocator: its segments, the blocks they are cut into, an index of idle blocks for each
// domain (done, pending, one for each stream slot), and the queue of idle blocks whose work is not done,
// oldest first. Neighbours of one domain are merged at once. Host-only; every call under the owner's lock;
// fuzzable alone. It decides where, never when: whether a stamp is done is asked of the caller.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/space/atlas.hpp"
#include "core/space/free_index.hpp"

namespace gpumem::space {

class region {
 public:
  region(atlas& where, segment_owner* owner) noexcept : atlas_(where), owner_(owner) {}

  // Adds an upstream allocation as one idle, done block. False when the tables are full.
  bool add_segment(std::uint64_t base, std::uint64_t bytes, std::uint64_t token) noexcept;

  // Cuts `units` from an idle block of `from`. The block is `live` and in the block map, unless `hidden` (it
  // is then a segment of another resource). `thorough`: see free_index. A block taken from a domain other
  // than `done` keeps its stamp in `freed`.
  handle take(domain from, std::uint32_t units, bool thorough = false, bool hidden = false) noexcept;
  // The same from any domain but `done` and `except`: the caller must order the block's next use after its
  // stamp.
  handle take_unfinished(domain except, std::uint32_t units) noexcept;

  // Makes a live or cached block idle. For a domain other than `done`, `freed` must be its stamp.
  void put(handle h, domain to) noexcept;

  // Moves idle blocks whose stamp `is_done` into `done`, oldest first, until one is not. Returns the bytes
  // moved.
  template <typename Predicate>
  std::uint64_t reap(Predicate is_done) noexcept {
    std::uint64_t moved = 0;
    while (oldest_ != none && is_done(blocks()[oldest_].freed)) {
      handle const h = oldest_;
      moved += blocks()[h].bytes();
      detach(h);
      put(h, done);
    }
    return moved;
  }
  // Moves all of a stream's domain into `pending`: its stream is gone.
  void orphan(domain from) noexcept;

  bool has_pending() const noexcept { return oldest_ != none; }
  stamp oldest_stamp() noexcept { return blocks()[oldest_].freed; }
  stamp youngest_stamp() noexcept { return blocks()[newest_].freed; }
  std::uint64_t idle_bytes() const noexcept { return idle_bytes_; }  // done and not done
  std::uint64_t pending_bytes() const noexcept { return pending_bytes_; }
  std::uint64_t reserved_bytes() const noexcept { return reserved_bytes_; }
  std::uint64_t largest_idle() noexcept;

  // A segment that is one idle, done block (and not pinned), or null; `keep` of them are passed over.
  segment* empty_segment(int keep = 0) noexcept;
  // Forgets a segment: an empty one, or, when its context is gone, any.
  void remove_segment(segment* s) noexcept;
  std::vector<segment*> const& segments() const noexcept { return segments_; }

 private:
  block_table& blocks() noexcept { return atlas_.blocks; }
  free_index* index(domain d, bool make) noexcept;
  void attach(handle h, domain to) noexcept;          // into index and queue
  void detach(handle h) noexcept;                     // out of both
  handle absorb(handle left, handle right) noexcept;  // merges `right` into `left`, both detached

  atlas& atlas_;
  segment_owner* owner_;
  std::vector<std::unique_ptr<free_index>> indices_;  // by domain
  std::vector<segment*> segments_;
  handle oldest_ = none;
  handle newest_ = none;
  std::uint64_t idle_bytes_ = 0;
  std::uint64_t pending_bytes_ = 0;
  std::uint64_t reserved_bytes_ = 0;
};

}  // namespace gpumem::space
