// The space of one suballocator: its segments, the blocks they are cut into, a free index for each free
// list (done, pending, one for each stream slot), and a queue of idle blocks whose work is not done, oldest
// first. Neighbours of one free list are merged at once. Over a source of pages a segment is a range of
// addresses with holes, filled and punched in pieces of whole pages. Decides where, never when: the caller
// says whether an epoch is done. Every call under the owner's lock; no CUDA call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/space/block_registry.hpp"
#include "core/space/free_index.hpp"

namespace gpumem::space {

class region {
 public:
  region(block_registry& where, segment_owner* owner) noexcept : registry_(where), owner_(owner) {}

  // Adds an upstream allocation as one idle, done block. False when the tables are full.
  bool add_segment(std::uint64_t base, std::uint64_t bytes, std::uint64_t token,
                   bool contextless = false) noexcept;

  // From now on `take_admitted` finds no place in it for blocks of less than so many units, more than 0.
  void admit_from(segment& s, std::uint32_t units) noexcept;
  // Bytes of the segments that admit any.
  std::uint64_t admitting_bytes() const noexcept { return admitting_bytes_; }

  // Cuts `units` from an idle block of `from`. The block is `live` and in the block map, unless `hidden` (it
  // is then a segment of another resource). `thorough`: see free_index. A block taken from a free list other
  // than `done` keeps its epoch in `freed`. `alignment`: a power of two, in bytes; of the block's address.
  handle take(free_list_id from, std::uint32_t units, bool thorough = false, bool hidden = false,
              std::uint64_t alignment = unit) noexcept;
  // The same from `first` or `done`: of whichever has the smaller block for it, of `first` where both are
  // equal.
  handle take_tighter(free_list_id first, std::uint32_t units, bool thorough, bool hidden,
                      std::uint64_t alignment) noexcept;
  // The same from `done`, unless the cut would leave idle a part of a piece that is idle now, which then
  // could not be given back: `would_split_piece` says that this is why there is none. At most `left_over`
  // units of it may be left. A block of whole pages begins at one where it can, so that its free makes all of
  // them idle.
  handle take_whole(std::uint32_t units, std::uint32_t page, std::uint32_t left_over, bool hidden,
                    std::uint64_t alignment, bool& would_split_piece) noexcept;
  // The same from `done`, but out of no segment that the block would keep from going back for little: an
  // empty one is to be filled by three quarters, another one is at most 16 times as large. Those up to the
  // driver's page take any; so do very large ones, which cost more to get again. May overlook blocks.
  handle take_in_proportion(std::uint32_t units, bool hidden, std::uint64_t alignment) noexcept;
  // The same, but out of no segment that the block would keep from going back: of an empty one at most
  // `left_over` units may be left, and another one is at most 16 times as large, or `of_small` bytes where
  // the block is below the driver's page. Those up to that page take any. May overlook blocks.
  handle take_by_itself(free_list_id from, std::uint32_t units, std::uint32_t left_over,
                        std::uint64_t of_small, bool hidden, std::uint64_t alignment) noexcept;
  // The same from `done`, but out of a segment that was made for blocks so small (admit_from). Of so many
  // idle blocks that might do only a few are looked at: `overlooked` if there may be one all the same.
  handle take_admitted(std::uint32_t units, bool hidden, std::uint64_t alignment, bool& overlooked) noexcept;
  // The same from any free list but `done` and `except`: the caller must order the block's next use after its
  // epoch.
  handle take_unfinished(free_list_id except, std::uint32_t units) noexcept;

  // Makes a live or cached block idle. For a free list other than `done`, `freed` must be its epoch. What it
  // is now, merged with its neighbours.
  handle put(handle h, free_list_id to) noexcept;

  // Moves idle blocks whose epoch `is_done` into `done`, oldest first, until one is not. Returns the bytes
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
  // True while `in` is a segment of this region that holds the address.
  bool has(segment const& in, std::uint64_t address) const noexcept {
    return in.owner == owner_ && address - in.base < in.bytes;  // 0 of one that was removed
  }
  // Makes the segment able to answer block_at, from now on. False: no host memory; its blocks can be walked.
  bool map_starts(segment const& in) noexcept;
  // The block that holds `address`, of those that were ever handed to the program; none of others.
  handle block_at(segment const& in, std::uint64_t address) noexcept;

  // Moves all of a stream's free list into `pending`, as its stream is gone, or into `done`.
  void orphan(free_list_id from, free_list_id to = pending) noexcept;
  // Calls `visit` with each stream's free list that is not empty; `visit` may move it.
  template <typename Visit>
  void each_stream(Visit visit) noexcept {
    for (free_list_id d = withheld + 1; d < indices_.size(); ++d)
      if (indices_[d] != nullptr && !indices_[d]->empty()) visit(d);
  }

  bool has_pending() const noexcept { return oldest_ != none; }
  epoch_id oldest_epoch() noexcept { return blocks()[oldest_].freed; }
  epoch_id youngest_epoch() noexcept { return blocks()[newest_].freed; }
  std::uint64_t idle_bytes() const noexcept { return idle_bytes_; }  // done and not done
  std::uint64_t pending_bytes() const noexcept { return pending_bytes_; }
  std::uint64_t reserved_bytes() const noexcept { return reserved_bytes_; }
  std::uint64_t largest_idle() noexcept;
  // Adds idle blocks by size, some at each call. Where to go on: the blocks may be others by then. False:
  // that was all.
  struct count_place {
    free_list_id list = done;
    int row = 0;
  };
  bool count_idle(count_place& at, stats::free_blocks& to) noexcept;

  // A segment that is one idle, done block, or null; `keep` of them are passed over.
  segment* empty_segment(int keep = 0) noexcept;
  // The same, of which `wanted` holds; it also gets the epoch of the last free in it.
  template <typename Predicate>
  segment* empty_segment_if(Predicate wanted) noexcept {
    std::size_t left = empty_segments_;
    for (segment* s : segments_) {
      if (left == 0) break;
      block const& b = blocks()[s->first];
      if (b.now.load(std::memory_order_relaxed) != state::idle || !is_empty_segment(b)) continue;
      if (wanted(*s, b.freed)) return s;
      --left;
    }
    return nullptr;
  }
  std::size_t empty_segments() const noexcept { return empty_segments_; }
  // Bytes of all such segments.
  std::uint64_t empty_bytes() noexcept {
    std::uint64_t sum = 0;
    empty_segment_if([&sum](segment const& s, epoch_id) {
      sum += s.bytes;
      return false;
    });
    return sum;
  }
  // A segment with withheld memory of which nothing is in use, though its work may not be done; or null.
  segment* left_segment() noexcept;
  std::uint64_t withheld_bytes() const noexcept { return withheld_bytes_; }
  // --- memory that comes and goes by pages (region_pages.cpp); all pages of one region have one size ---
  // A piece is one page or several, which come and go together.
  // Adds a segment that has addresses but no memory: one hole. Its ends are multiples of the page.
  bool add_range(std::uint64_t base, std::uint64_t bytes, std::uint64_t token) noexcept;
  // A part of a hole, and its idle neighbours, which together would hold a request; all are live and hidden,
  // so that nobody else takes them while the driver maps pieces into the hole.
  struct opening {
    handle left = none;        // idle before, or none
    handle middle = none;      // of the hole; none: there is no room for the request
    handle right = none;       // idle behind, or none
    std::uint32_t needed = 0;  // units of `middle`, from its begin, that the request cannot do without
    std::uint32_t own = 0;     // of these, those that no other block will lie in
    std::uint32_t front = 0;   // units of `left` that the request leaves alone
  };
  // The tightest place for `units`; where it lies in a hole that is larger, up to `wished` units of it.
  // `whole`: one in which no piece behind the hole is cut, and where a request of whole pages begins at one.
  opening open(std::uint32_t units, std::uint32_t page, std::uint32_t wished, bool whole) noexcept;
  // The rest of `middle` is a hole again. False, and nothing changed, when the tables are full.
  bool shorten(opening const& o, std::uint32_t units) noexcept;
  // What is about to be mapped from this address of `middle` on: pieces of these bytes. False: no host
  // memory.
  bool lay(std::uint64_t address, std::uint32_t page, std::span<std::uint64_t const> pieces) noexcept;
  handle fill(opening const& o) noexcept;  // its middle has memory now: all of it is idle, one block
  void close(opening const& o) noexcept;   // it has not: back as it was
  // Cuts `units` from this idle, done block, `front` units or more into it; as take().
  handle take_from(handle idle, std::uint32_t front, std::uint32_t units, bool hidden,
                   std::uint64_t alignment) noexcept;
  // Whole pieces out of one idle, done block, at least `wanted` units of them if there is such a block, and
  // few more; live and hidden. None: there is no piece.
  handle take_pages(std::uint32_t page, std::uint32_t wanted) noexcept;
  // The pieces of a block from take_pages are gone.
  void punch(handle h) noexcept;
  // What take_pages could give in all, counted until `enough`.
  std::uint64_t whole_pages(std::uint32_t page, std::uint64_t enough) noexcept;

  // Forgets a segment: an empty one, or, when its context is gone, any.
  void remove_segment(segment* s) noexcept;
  std::vector<segment*> const& segments() const noexcept { return segments_; }

 private:
  block_table& blocks() noexcept { return registry_.blocks; }
  // The index of this free list; null: there is none, or no host memory to make it.
  free_index* index(free_list_id d, bool make) noexcept;
  // A handle for a block of which the caller sets all but the marks; first of those that blocks were merged
  // out of here, which takes no lock. `none`: the table is full.
  handle take_handle() noexcept;
  void give_handle(handle h) noexcept;
  static bool is_whole_segment(block const& b) noexcept { return b.before == none && b.after == none; }
  // Of an idle block: nothing else is in its segment, and its work is done.
  static bool is_empty_segment(block const& b) noexcept { return b.where == done && is_whole_segment(b); }
  void attach(handle h, free_list_id to) noexcept;    // into index and queue
  void detach(handle h) noexcept;                     // out of both
  handle absorb(handle left, handle right) noexcept;  // merges `right` into `left`, both detached
  handle split(handle h,
               std::uint32_t units) noexcept;  // a new block behind the first `units`; none: no room
  // Notes in the segment's start map that a block begins here, or no longer does.
  void mark_start(block const& b, bool is_one) noexcept {
    if (start_maps_ != 0) [[unlikely]]
      note_start(b, is_one);
  }
  void note_start(block const& b, bool is_one) noexcept;
  // Cuts `units` out of an idle block, `front` units into it; they are detached, the rest stays idle.
  handle carve(handle h, std::uint32_t front, std::uint32_t units) noexcept;
  bool show(handle h, bool hidden) noexcept;  // in the map, or out of it; then live
  // A block of this free list for so many units, which stays there; none: there is none.
  handle find(free_list_id in, std::uint32_t units, bool thorough, std::uint64_t alignment) noexcept;
  handle find_aligned(free_index const& idle, std::uint32_t units, bool thorough,
                      std::uint64_t alignment) noexcept;
  // A segment with one block over all of it; none: the tables are full.
  handle make_segment(std::uint64_t base, std::uint64_t bytes, std::uint64_t token,
                      bool contextless) noexcept;
  void add_hole(handle h) noexcept;  // into the list; merges with holes beside it
  void drop_hole(handle h) noexcept;
  // Taking `units` there would leave idle a part of a piece that is idle now, more than `left_over` of it.
  bool would_split(handle h, std::uint32_t front, std::uint32_t units,
                   std::uint32_t left_over) const noexcept;
  // Addresses that one piece, or whole pieces side by side, take.
  struct span_of_pieces {
    std::uint64_t begin = 0, end = 0;  // addresses
  };
  // The large piece that holds this address behind its begin; empty: there is none.
  span_of_pieces piece_around(std::uint64_t address) const noexcept;
  span_of_pieces whole_in(handle h, std::uint32_t page) const noexcept;
  void forget_pieces(std::uint64_t begin, std::uint64_t end) noexcept;

  block_registry& registry_;
  segment_owner* owner_;
  free_index done_;  // what nearly every request looks at, without a step to it
  std::vector<std::unique_ptr<free_index>> indices_;  // of the other domains, by number
  std::vector<segment*> segments_;
  handle oldest_ = none;
  handle newest_ = none;
  handle holes_ = none;
  handle spare_ = none;  // linked through `next`
  std::uint32_t spare_count_ = 0;
  std::uint32_t start_maps_ = 0;                   // segments with a map of starts
  std::map<std::uint64_t, std::uint64_t> pieces_;  // begin -> bytes, those larger than a page
  std::uint64_t idle_bytes_ = 0;
  std::uint64_t pending_bytes_ = 0;
  std::uint64_t withheld_bytes_ = 0;  // not idle
  std::size_t empty_segments_ = 0;
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t admitting_bytes_ = 0;
};

}  // namespace gpumem::space
