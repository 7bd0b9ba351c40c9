// Where a suballocator's memory comes from, and how it goes back: as whole segments (segment_backing) or by
// pages (page_backing). Puts new memory into the region as idle blocks and takes empty ones out;
// growth_policy says how much. Called by the suballocator on slow paths, under its mutex, which is given up
// around calls of the source and held again on return, also when something is thrown: other threads' requests
// go on meanwhile.
#pragma once

#include <algorithm>
#include <mutex>
#include <optional>

#include "core/base/contract.hpp"
#include "core/base/threads/adaptive_mutex.hpp"
#include "core/resource/pools/backing/given_ahead.hpp"
#include "core/resource/pools/backing/going_back.hpp"
#include "core/resource/pools/backing/growth_policy.hpp"
#include "core/resource/pools/backing/refusals.hpp"
#include "core/resource/resource.hpp"
#include "core/resource/source.hpp"
#include "core/space/region.hpp"

namespace gpumem::resource {

using pool_lock = std::unique_lock<base::adaptive_mutex>;

// Gives the mutex up for as long as it lives.
class unlocked {
 public:
  explicit unlocked(pool_lock& held) noexcept : held_(held) {
    GPUMEM_EXPECTS(held_.owns_lock());
    held_.unlock();
  }
  ~unlocked() { held_.lock(); }
  unlocked(unlocked const&) = delete;

 private:
  pool_lock& held_;
};

// The block that new memory is for.
struct growth_request {
  std::uint32_t units = 0;
  std::uint32_t alignment = 0;   // bytes, a power of two; 0: any block is aligned enough
  unsigned flags = 0;            // of the call, for the source
  std::uint64_t at_least = 0;    // bytes to take, more than the block, so that others of its size take turns
  std::uint64_t ahead = 0;       // bytes that the GPU still works on: as many more let the host run ahead
  bool hidden = false;           // from the block map: a segment of another resource
  bool anywhere = false;         // with room to hold the aligned block wherever the memory begins
  bool apart = false;            // a segment of its own
  bool by_itself = false;        // no larger than it has to be: memory is scarce
  bool for_whole_piece = false;  // there is idle memory for it, which must not be cut
  bool of_many = false;          // many threads, streams or parts share the pool
  bool in_order = false;         // of a stream: what it freed serves it again before the GPU is done

  // Room that holds the aligned block wherever it begins.
  std::uint64_t room() const noexcept {
    return units * space::unit + (alignment > space::unit ? alignment - space::unit : 0);
  }
};

// What a backing works with: the suballocator's own, which outlives it.
struct backed_pool {
  chain_context const& home;
  std::size_t node;  // of whose counters
  suballocator_options const& options;
  refusals const& refuse;
  space::region& region;
  source& upstream;
};

// What may go back for its age, or because its size has not earned to be kept.
struct due_memory {
  std::optional<space::epoch_id> old_enough;  // nothing in use since this epoch; none: no age is enough
  std::uint64_t idle_throughout = 0;          // bytes that nobody needed since, wherever they are
  std::uint64_t until = 0;                    // time by which to stop, at the end of a call of the driver
};

class backing {
 public:
  explicit backing(backed_pool const& pool) noexcept : pool_(pool) {}
  virtual ~backing() = default;
  backing(backing const&) = delete;

  // Reserves options.initial, more than 0. Throws driver::allocation_failed.
  virtual void prepare(pool_lock& held) = 0;
  // New memory, and the block in it where only the backing knows its place; `none`: a search finds it. Throws
  // driver::allocation_failed, of the source or in the suballocator's name.
  virtual space::handle grow(pool_lock& held, growth_request const& wanted) = 0;
  // Gives empty memory back while more than `keep_idle` bytes are idle; bytes given back. `may_wait`: see
  // release_order.
  virtual std::uint64_t release_empty(pool_lock& held, std::uint64_t keep_idle, bool may_wait) noexcept = 0;

  // Gives back each segment of which nothing is in use, as long as more than options.initial and kept_idle
  // stay, until that time is over (due_memory::until).
  virtual void release_surplus(pool_lock&, std::uint64_t) noexcept {}

  // The source waits for the GPU when it takes memory back.
  virtual bool waits_for_gpu() const noexcept { return true; }
  // Whether there is such memory, and gives it back; false: some is left, as the time is over.
  virtual bool has_due(due_memory const&) noexcept { return false; }
  virtual bool release_due(pool_lock&, due_memory const&, going_back&) noexcept { return true; }

  // What a request gives back is waited for where the source knows no other way.
  bool requests_wait() const noexcept { return !pool_.upstream.takes_back_at_once(); }
  // Gives back segments with withheld memory of which nothing is in use; bytes given back.
  std::uint64_t release_withheld(pool_lock& held, bool may_wait) noexcept;
  // Gives back what frees are to give back ahead of requests.
  void release_ahead(pool_lock& held) noexcept;
  given_ahead ahead;
  // Bytes taken so that more blocks of a size take turns (growth_request::at_least), and not given back
  // since.
  std::uint64_t rotated() const noexcept { return rotated_; }
  // All segments went with their context. Under the mutex.
  void all_lost() noexcept { apart_ = rotated_ = 0; }
  // More bytes of segments made for one block each would be too many (growth_request::apart).
  bool may_make_apart(std::uint64_t bytes) const noexcept;

 protected:
  growth_policy policy() const noexcept { return growth_policy(pool_.options); }
  bool would_exceed(std::uint64_t bytes) const noexcept {
    return policy().would_exceed(pool_.region.reserved_bytes(), bytes);
  }
  // Reserved, and not on its way back.
  std::uint64_t stays() const noexcept {
    std::uint64_t const reserved = pool_.region.reserved_bytes();
    return reserved - std::min(reserved, going_);
  }
  // Of the maximum: reserved, and on the way.
  std::uint64_t taken() const noexcept { return pool_.region.reserved_bytes() + growing_; }
  // Counts a growth in the suballocator's node.
  void count_growth() const noexcept { stats::add(stats::local().nodes[pool_.node].upstream, 1); }
  // Gives memory that the region does not know back to the source.
  void hand_back(pool_lock& held, extent const& memory, bool may_wait = true) noexcept;
  // Removes the segment and gives it to the source; its bytes. `done`: all work that used it.
  std::uint64_t release_segment(pool_lock& held, space::segment* s, bool may_wait = true,
                                bool done = true) noexcept;

  // All work that used blocks of the segment, of which none is in use.
  bool is_done(space::segment const& s) const noexcept;

  backed_pool const pool_;
  std::uint64_t growing_ = 0;  // bytes being reserved right now, by any thread
  std::uint64_t going_ = 0;    // bytes of the region that are being given back
  std::uint64_t apart_ = 0;    // bytes of segments made for one block
  std::uint64_t rotated_ = 0;
};

}  // namespace gpumem::resource
