// A segment: one allocation from a source, which holds blocks. The table names all segments of the process
// by index and finds the one that contains an address, for the rare questions about interior or unknown
// pointers. A segment's blocks belong to its owner and are touched under the owner's lock only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <vector>

#include "core/space/blocks/block_table.hpp"
#include "core/space/blocks/start_map.hpp"

namespace gpumem::space {

// The resource that made a segment; core/resource derives from it.
class segment_owner {
 protected:
  ~segment_owner() = default;
};

struct segment {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  std::uint64_t token = 0;         // what the source wants back with it
  segment_owner* owner = nullptr;  // read without a lock; an owner is never destroyed
  handle first = none;             // its block of lowest address
  std::uint32_t index = 0;
  std::uint32_t depth = 0;   // how many segments it lies inside of
  std::size_t position = 0;  // in its region's list
  // Bit n: the driver's attribute n is what is expected of any address in it (route/address_answers).
  std::atomic<std::uint32_t> learnt{0};
  start_map starts;      // where its blocks begin; empty until somebody asks
  bool pinned = false;   // a block of it was exported by IPC: it goes back when all of its blocks are free
  bool apart = false;    // made for one block that may be exported
  bool rotates = false;  // made so that more blocks of a size take turns
  std::uint32_t least =
      0;                  // units: smaller blocks would keep it from serving what it was made for; 0: none do
  bool unproven = false;  // a block of it was, when it was freed: goes back as soon as it is empty
  bool contextless = false;  // no context owns it, as the driver tells it: of cuMemCreate, of a memory pool
};

class segment_table {
 public:
  // Null when the table is full or no memory is left.
  segment* add(std::uint64_t base, std::uint64_t bytes, segment_owner* owner,
               bool contextless = false) noexcept;
  // Its index may be another segment's; blocks are the owner's to release before.
  void remove(segment* s) noexcept;
  // Moves on with each remove: until then a live block at an address keeps its owner.
  std::uint32_t removals() const noexcept { return removals_.load(std::memory_order_acquire); }

  segment& operator[](std::uint32_t index) noexcept {
    return *chunks_[index / chunk_size].load(std::memory_order_acquire)[index % chunk_size];
  }
  // The segment that contains `address`, or null. A pool below another pool has segments inside segments: the
  // innermost, added last, is the one that is found.
  // With its owner as of then: another thread may remove it at once, and its place is the next one's.
  struct place {
    segment* in = nullptr;
    segment_owner* owner = nullptr;
  };
  place containing(std::uint64_t address) noexcept;
  // The same of this owner's.
  segment* containing(std::uint64_t address, segment_owner const* owner) noexcept;
  // Whether the outermost of them, which is the driver's, is contextless.
  bool is_contextless(std::uint64_t address) noexcept;
  // The owners of all segments that contain it, innermost first, as many as there is room for.
  std::size_t owners_of(std::uint64_t address, std::span<segment_owner*> owners) noexcept;
  // True if `test` holds for the owner of a segment that shares bytes with these; null owners are left out.
  template <typename Test>
  bool any_owner(std::uint64_t base, std::uint64_t bytes, Test test) noexcept {
    std::shared_lock lock(mutex_);
    for (auto const& level : by_depth_) {
      auto at = level.lower_bound(base + bytes);
      while (at != level.begin()) {
        segment const& s = *(--at)->second;
        if (s.base + s.bytes <= base) break;
        if (s.owner != nullptr && test(*s.owner)) return true;
      }
    }
    return false;
  }

 private:
  static constexpr std::uint32_t chunk_size = 1024;
  std::array<std::atomic<segment**>, 4096> chunks_{};
  std::uint32_t used_ = 1;
  std::uint32_t free_ = 0;  // recycled indices, linked through `first`
  // Whether one of that depth shares an address with these bytes.
  bool meets(std::size_t depth, std::uint64_t base, std::uint64_t bytes) const noexcept;
  static segment* in_level(std::map<std::uint64_t, segment*> const& level, std::uint64_t address) noexcept;
  // Calls `visit` with each segment that contains it, innermost first, until it says true.
  template <typename Visit>
  void each_containing(std::uint64_t address, Visit visit) noexcept;

  // One map for each depth of nesting: within one, segments never overlap, so that one look decides.
  std::vector<std::map<std::uint64_t, segment*>> by_depth_;
  std::shared_mutex mutex_;
  std::atomic<std::uint32_t> removals_{0};
};

}  // namespace gpumem::space
