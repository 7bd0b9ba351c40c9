// The engine of pool, fixed_size and arena: cuts segments of a source into blocks. A hit takes a block from
// this thread's (or this stream's) magazine. Everything else takes the slow path under one mutex: rungs,
// cheapest first, each counted, the search repeated after each. `region` decides where, `epochs` decides
// when; a `cache_set` keeps what is freed, a `backing` has the memory. Any thread; the mutex is never held
// across a call that can block. Can itself be the source of another suballocator (fixed_size over a pool).
#pragma once

#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "core/base/threads/adaptive_mutex.hpp"
#include "core/base/threads/mutex.hpp"
#include "core/resource/free_duties.hpp"
#include "core/resource/pools/backing/going_back.hpp"
#include "core/resource/pools/backing/growth_policy.hpp"
#include "core/resource/pools/backing/page_backing.hpp"
#include "core/resource/pools/backing/refusals.hpp"
#include "core/resource/pools/backing/scarcity.hpp"
#include "core/resource/pools/backing/segment_backing.hpp"
#include "core/resource/pools/backing/segment_mixing.hpp"
#include "core/resource/pools/backing/surplus.hpp"
#include "core/resource/pools/cache/cache_set.hpp"
#include "core/resource/pools/cache/contention.hpp"
#include "core/resource/pools/cache/shared_bins.hpp"
#include "core/resource/pools/cache/size_classes.hpp"
#include "core/resource/pools/exported_sizes.hpp"
#include "core/resource/resource.hpp"
#include "core/resource/source.hpp"
#include "core/space/region.hpp"
#include "core/stream_order/one_stream.hpp"

namespace gpumem::resource {

class suballocator : public resource, public source {
 public:
  suballocator(chain_context const& home, std::size_t node, suballocator_options const& options,
               source& upstream, char const* name) noexcept;

  // Reserves options.initial. Throws driver::allocation_failed.
  void prepare();

  space::handle allocate(allocation_request const& request) override;
  void deallocate(space::handle h, free_order const& order) noexcept override;

  // This thread's magazine, or the stream's. Null: not made yet, or none can be. Of a thread it stays the
  // same.
  magazine* known_magazine_of(stream_order::slot s) const noexcept { return caches_.find(s); }
  // The hit of allocate, without a call; `none`: leave the request to allocate_slow, with the same `own` and
  // `look`, and a block to count_hit. `table`: of all blocks; `own`: the known magazine.
  space::handle try_allocate_cached(space::block_table& table, magazine* own, std::uint64_t bytes,
                                    stream_order::slot slot, std::uint32_t alignment,
                                    cache_look& look) noexcept;
  // Counts a block of so many bytes that a magazine had. `mine`: this thread's counters.
  void count_hit(stats::shard& mine, stream_order::slot slot, std::uint64_t bytes) const noexcept {
    stats::node_counters& counters = mine.nodes[node_];
    stats::add(counters.requests, 1);
    stats::add(counters.bytes_in, bytes);
    stats::add(counters.hits, 1);
    auto& device = mine.devices[home_.device_slot];
    stats::add(slot == stream_order::no_slot ? device.rung_cached : device.rung_same_stream, 1);
  }
  space::handle allocate_slow(allocation_request const& request, magazine* own, cache_look look);

  // The same of deallocate, of the block `b`; false: nothing was done. `life`: as in a free_order.
  bool try_cache(space::block_table& table, magazine* own, stats::shard& mine, space::handle h,
                 space::block& b, bool settled, std::uint32_t life) noexcept;

  void deallocate_unproven(space::handle h, free_order const& order) noexcept override;
  void withhold(space::handle h, free_order const& order) noexcept override;
  void exported(std::uint64_t address) noexcept override;
  space::handle block_at(space::segment const& in, std::uint64_t address) noexcept override;
  idle_usage measure() noexcept override;
  std::uint64_t idle() noexcept override;
  void count_free(stats::free_blocks& to) noexcept override;
  bool counts_in(budget const& b) const noexcept override { return upstream_.counts_in(b); }
  std::uint64_t give_back(give_back_scope scope) noexcept override;
  void stream_gone(stream_order::slot s) noexcept override;
  void forget() noexcept override;
  void begin_again() override;
  void give_back_due(moment const& at) noexcept override;

  using resource::lost;

  // As a source of another resource.
  extent reserve(allocation_request const& request) override;
  void release(extent const& memory, release_order const& order) noexcept override;
  void lost(extent const& memory) noexcept override { stats::add(count().bytes_out, memory.bytes); }
  void lost(space::handle h) noexcept override { count_back(h); }
  std::uint64_t trim(give_back_scope scope) noexcept override { return give_back(scope); }
  bool refuses_as_well(std::uint64_t bytes, std::uint64_t more) noexcept override;
  // What parts of an arena give back makes no call.
  bool takes_back_when_idle() const noexcept override { return spare_ != nullptr; }
  bool takes_back_at_once() const noexcept override { return spare_ != nullptr; }
  bool relieves() const noexcept override {
    return home_.relieve != nullptr && home_.kind != driver::memory_kind::host;
  }

  // Asks `spare` for idle memory, with the mutex given up, before this grows: that of the resources above,
  // which may take memory from one another in this way. It gives back so many bytes or more, if it can, and
  // goes on where `asked` says that it stopped; 0: nobody has more.
  // `is_short`: what is empty would go back before it grows.
  using spare_memory = std::uint64_t (*)(resource& of, std::uint64_t bytes, bool is_short,
                                         std::size_t& asked) noexcept;
  void grow_after(spare_memory spare, resource& of) noexcept {
    spare_ = spare;
    spare_of_ = &of;
  }
  // The segments of this one above come from here: what it has idle goes back before this grows. While a
  // chain is built.
  void lends_to(suballocator& above) {
    if (above.options_.initial == 0) borrowers_.push_back(&above);  // what is preallocated is to stay
  }
  // One more of the resources above takes segments of its own from here.
  void count_part() noexcept { parts_.fetch_add(1, std::memory_order_relaxed); }
  std::size_t parts() const noexcept { return parts_.load(std::memory_order_relaxed); }
  // Many threads, streams or parts share it.
  bool is_of_many() const noexcept;
  // Gives back the segments of which nothing is in use, and of which the driver says that no work uses them.
  // Does not wait.
  std::uint64_t give_back_idle() noexcept;

  // Bytes reserved now; 0 where the mutex is held, as by a thread that an exit stopped.
  std::uint64_t reserved() const noexcept;

 private:
  using lock = pool_lock;

  static space::free_list_id free_list_of(stream_order::slot s) noexcept {
    return s == stream_order::no_slot ? space::pending
                                      : static_cast<space::free_list_id>(space::first_stream + s);
  }
  // The context has ended: what a thread is about to bring back went with it, and may be another's by now.
  // Under the mutex.
  bool has_ended() const noexcept {
    return home_.epochs.ended_since(life_) && !GPUMEM_MUTANT(lost_block_kept);
  }
  // The same of a block that was taken from the program in that life; the next context may have begun here.
  bool has_ended(std::uint32_t taken_in) const noexcept {
    return home_.epochs.ended_since(taken_in) && !GPUMEM_MUTANT(lost_block_kept) &&
           !GPUMEM_MUTANT(late_free_kept);
  }
  // For a magazine, or a bin: the block, taken in that life, is still there to be kept, as freed in that
  // epoch. Under its lock: forget() and begin_again() empty it after the life has moved on, so that they
  // either take the block out again or have been there, and this sees it.
  auto is_still(space::epoch_id freed, std::uint32_t taken_in) const noexcept {
    return [this, freed, taken_in](space::block& b) {
      if (home_.epochs.life() != taken_in && !GPUMEM_MUTANT(late_free_kept)) [[unlikely]]
        return false;
      b.freed = freed;
      return true;
    };
  }
  // As deallocate, where no magazine takes the block without a call.
  void deallocate_slow(space::handle h, free_order const& order) noexcept;
  void put_back(space::handle h, free_order const& order) noexcept;
  // A free of so many bytes in the order of that stream has an event at once.
  bool settles_when_freed(std::uint64_t bytes, stream_order::slot on) const noexcept;
  // Holds the mutex, and notes whether it had to wait for it.
  lock enter() noexcept {
    lock held(mutex_, std::try_to_lock);
    if (held.owns_lock()) [[likely]] {
      waits_.found_free();
    } else {
      held.lock();
      waits_.waited();
    }
    return held;
  }
  // A request on its way over the rungs.
  struct slow_request {
    allocation_request const& request;
    std::uint32_t units;
    bool hidden = false;  // from the block map: a segment of another resource
    magazine* own = nullptr;
    cache_look look{};               // what is known of `own`: do blocks of this very size wait there?
    bool churns = false;             // too few of this size take turns, in a loop that does nothing else
    bool grew = false;               // upstream was asked
    bool would_split_piece = false;  // the last search found room that only part of a piece would give
    bool apart = false;              // its block is to have a segment of its own
    std::uint64_t begun = 0;         // ns: when it found that blocks of its size wait for the GPU; 0: none do
    std::uint64_t ahead = 0;         // bytes that wait for the GPU, too few for the host to wait for them
    // takes what the last growth was refused with
    std::optional<driver::allocation_failed>* refused = nullptr;
    bool hopeless = false;         // not even with all that is idle
    std::uint32_t life = 0;        // of the context whose block serves it, where that is hidden
    bool counted = false;          // that it needed an event
    bool behind = false;           // requests for this size do so in a row, as too few blocks are there
    bool grown_for_turns = false;  // new memory serves it, so that more blocks of its size take turns
  };
  // A block of the request's own magazine, if one may serve it.
  space::handle from_magazine(slow_request& c) noexcept;
  // Which freed block may serve it: by the epoch of its free.
  auto serves(stream_order::slot slot) const noexcept {
    return [this, slot](space::epoch_id s) {
      return slot != stream_order::no_slot || home_.epochs.is_done(s) || runs_in_one_order(slot);
    };
  }
  // Large sizes lie in bins, as many threads wait for the mutex (sharing.cpp).
  bool shares(std::uint32_t units) const noexcept {
    return sharing_.load(std::memory_order_relaxed) && shared_bins::has_bin(units);
  }
  bool has_plenty() const noexcept;
  bool may_share() const noexcept;
  void start_to_share() noexcept;
  // Nobody waited for a while: each thread has its own again. Under the mutex.
  void stop_sharing() noexcept;
  // The request gets the size of its bin, and a block of that bin, if one may serve it soon.
  space::handle from_bin(slow_request& c) noexcept;
  space::handle wait_for_bin(slow_request& c) noexcept;
  // Closes the epoch that blocks of this size wait for, then looks in the magazine again.
  space::handle wait_for_older(slow_request& c) noexcept;
  space::handle settled_by_an_event(slow_request& c) noexcept;
  void get_ahead(slow_request const& c) noexcept;
  // What was freed without a stream may serve it although the work before the free still runs.
  bool runs_in_one_order(stream_order::slot slot) const noexcept;

  // The rungs, with the counters of this node. Throws driver::allocation_failed.
  space::handle allocate_counted(slow_request& c);
  // The first rung, and the way to the others. Throws driver::allocation_failed.
  space::handle try_rungs(slow_request& c);
  // All rungs after the first.
  space::handle try_higher_rungs(lock& held, slow_request& c);
  // Bytes of blocks that the program has, or that lie in magazines.
  std::uint64_t in_use() const noexcept { return region_.reserved_bytes() - region_.idle_bytes(); }
  // Bytes of the request's size, if blocks of it wait for the GPU; 0: none do.
  static std::uint64_t waiting_size(slow_request const& c) noexcept {
    return c.begun != 0 ? c.units * space::unit : 0;
  }
  // Frees wait for the GPU from now on, so that requests need not.
  void keep_pace(slow_request const& c) noexcept;
  // Memory is scarce with so many bytes more (scarcity); and a block for a request then.
  bool is_scarce(std::uint64_t bytes) const noexcept {
    return scarcity_.may_be_there(region_.reserved_bytes()) && scarcity_.is_there(in_use() + bytes);
  }
  void note_scarcity() noexcept;
  std::uint64_t all_there_is() const noexcept;
  space::handle find_by_itself(slow_request const& c) noexcept;
  // How long to watch for freed memory before growing, in nanoseconds.
  std::uint64_t patience_ns(slow_request const& c) const noexcept;
#define GPUMEM_RUNG(step, counter) space::handle step(lock& held, slow_request& c);
#define GPUMEM_FIRST_RUNG GPUMEM_RUNG
#define GPUMEM_LAST_RUNG GPUMEM_RUNG
#include "core/resource/pools/rungs.def"
#undef GPUMEM_FIRST_RUNG
#undef GPUMEM_LAST_RUNG
#undef GPUMEM_RUNG
  // Counts one more event for blocks of this size; true: the loop churns (churn_detector).
  bool count_churn(slow_request& c) const noexcept;
  // More blocks of this size take turns from now on; one of them, or none.
  space::handle take_more_in_rotation(lock& held, slow_request& c) noexcept;
  // Small blocks leave their magazines last: not those of an arena's part, unless threads wait for it.
  bool keeps_small_blocks() const noexcept {
    return !options_.one_magazine || waits_.is_high();
  }
  // Brings all that was freed, of at least so many units, to where it can merge, and asks the driver what is
  // done. The bytes that magazines keep.
  std::uint64_t settle(lock& held, std::uint32_t units = 0) noexcept;
  // The resource below has had given back what is idle on the device, and the driver refused all the same.
  bool was_relieved(slow_request const& c) const noexcept {
    return upstream_.relieves() && (*c.refused)->kind() == driver::refused_by::driver;
  }
  // The driver would refuse it even if all that is empty went back first, and nothing else of this process is
  // on the device. The mutex is given up meanwhile.
  bool driver_would_refuse(lock& held, slow_request const& c) noexcept;
  // A free block from the region. `thorough`: overlooks nothing, and costs more.
  space::handle search(slow_request& c, bool thorough) noexcept;
  space::handle find(slow_request& c, bool thorough) noexcept;
  // Units of an idle piece that may be left beside the request's block.
  std::uint32_t left_over(slow_request const& c) const noexcept;
  // Bytes that a growth by `bytes` gives back before it takes more: whole pieces, or all empty segments.
  std::uint64_t would_go_back(std::uint64_t bytes) noexcept;
  // The request's block is to lie in a segment for blocks of its kind, or in a new one.
  bool keeps_kinds_apart(slow_request const& c) const noexcept;
  // Moves what is known to be done to the free list `done`; asks no driver.
  void reap() noexcept;
  // Puts the blocks of one magazine, or of all (null), back into the region: those of at least so many units.
  // The bytes that stay.
  std::uint64_t flush(magazine* only, std::uint32_t units = 0) noexcept;
  // Where memory is spared: one thread at a time grows, after a last look at what came free. A block if that
  // serves.
  space::handle take_turn_to_grow(lock& held, slow_request& c, std::unique_lock<base::mutex>& turn) noexcept;
  space::handle take_from_borrowers(lock& held, slow_request& c);
  std::uint64_t relieve(lock& held, give_back_scope scope) noexcept;
  // What streams freed that have no work is done, whatever others have to do; under the mutex.
  void settle_idle_streams() noexcept;
  CUstream stream_of(space::free_list_id list) const noexcept;
  // New memory, and the request's block in it. Throws what the backing throws.
  space::handle grow(lock& held, slow_request& c, std::uint64_t at_least = 0);
  growth_policy policy() const noexcept {
    return growth_policy(options_);
  }
  bool would_exceed(std::uint64_t bytes) const noexcept {
    return policy().would_exceed(region_.reserved_bytes(), bytes);
  }
  // Memory that other processes may have open (exports.cpp).
  bool is_to_be_exported(slow_request const& c) const noexcept;
  // The block, whose free was counted, serves nobody; its segment goes back to the source once it is done.
  void keep_from_all(lock& held, space::handle h, bool may_wait) noexcept;
  // A segment for this one block, which is likely to be exported.
  space::handle take_apart(lock& held, slow_request& c);
  // Memory that goes back (returns.cpp). Asked on slow paths: has the next free to look for such?
  void note_time() noexcept {
    if (age_.may_be_due()) [[unlikely]]
      free_duties.fetch_or(gives_back, std::memory_order_relaxed);
  }
  // A large block for a request: marked where its size has not come back before.
  void prove(space::handle h) noexcept;
  // It is in the region now; under the mutex.
  void note_unproven(space::segment& in, std::uint64_t bytes) noexcept;
  // Segments that many threads' growths left empty (surplus). It grew, while so many bytes were idle and
  // done; under the mutex.
  void note_surplus(std::uint64_t idle) noexcept;
  void give_back_surplus(std::uint64_t now) noexcept;
  // What the next requests would have to give back (given_ahead).
  void give_back_ahead() noexcept;
  // Brings blocks that were freed long ago out of the magazines; under the mutex.
  void sweep(std::uint64_t now) noexcept;
  // Puts a list of freed blocks, linked through `next`, into the region.
  void put_list(space::handle first, space::free_list_id to) noexcept;
  // True where sizes are rounded to a class, so that a magazine can serve them.
  bool has_class(std::uint64_t bytes) const noexcept;
  static std::uint32_t rounded_to_class(std::uint64_t bytes) noexcept;
  // Units of a block for so many bytes. Throws where that is more than the largest block.
  std::uint32_t rounded_units(std::uint64_t bytes) const;
  std::uint32_t rounded_to_step(std::uint64_t bytes) const;

  suballocator_options const options_;
  source& upstream_;
  refusals const refuse_;
  std::uint64_t const classes_up_to_;  // sizes up to here are rounded to their class; 0: all to a step
  std::uint32_t const page_;           // units of a page of the source's; 0: it gives whole segments
  // bins_ are in use. Each request without a hit asks: it lies among what nobody writes.
  std::atomic<bool> sharing_{false};

  alignas(64) base::mutex turn_to_grow_;  // before mutex_; its holder waits for the GPU a minute at most
  mutable base::adaptive_mutex mutex_;
  contention waits_;
  std::atomic<std::uint64_t> no_wait_until_{0};  // ns: what lies in bins is not done soon
  shared_bins bins_;
  space::region region_;
  cache_set caches_;
  std::variant<std::monostate, segment_backing, page_backing> made_;
  backing* const backing_;        // one of both
  std::uint32_t life_;            // of the context whose segments are there
  std::uint64_t rotating_ = 0;    // bytes being taken so that more blocks of a size take turns
  std::uint64_t watched_ns_ = 0;  // for freed memory, since the last growth
  segment_mixing mixing_;
  scarcity scarcity_;
  surplus surplus_;
  exported_sizes exported_;
  going_back age_;
  std::uint64_t idle_throughout_ = 0;  // bytes, as of the last interval
  std::atomic<bool> lends_{false};     // segments to resources above, which may have some of that idle
  std::atomic<std::size_t> parts_{0};
  spare_memory spare_ = nullptr;
  resource* spare_of_ = nullptr;
  std::vector<suballocator*> borrowers_;
};

inline bool suballocator::has_class(std::uint64_t bytes) const noexcept {
  return bytes - 1 < classes_up_to_;
}
inline std::uint32_t suballocator::rounded_to_class(std::uint64_t bytes) noexcept {
  return size_classes::round_up(static_cast<std::uint32_t>((bytes + space::unit - 1) / space::unit));
}

inline bool suballocator::runs_in_one_order(stream_order::slot slot) const noexcept {
  return slot == stream_order::no_slot && home_.kind == driver::memory_kind::device &&
         stream_order::one_stream.load(std::memory_order_acquire);
}

[[gnu::always_inline]] inline space::handle suballocator::try_allocate_cached(
    space::block_table& table, magazine* own, std::uint64_t bytes, stream_order::slot slot,
    std::uint32_t alignment, cache_look& look) noexcept {
  if (own == nullptr || !has_class(bytes)) [[unlikely]]
    return space::none;
  return own->try_take(table, rounded_to_class(bytes), serves(slot), look, alignment);
}

[[gnu::always_inline]] inline bool suballocator::try_cache(space::block_table& table, magazine* own,
                                                           stats::shard& mine, space::handle h,
                                                           space::block& b, bool settled,
                                                           std::uint32_t life) noexcept {
  if (own == nullptr) [[unlikely]]
    return false;
  std::uint64_t const bytes = b.bytes();  // once it lies in the magazine it may become another block's
  space::epoch_id const freed = settled ? home_.epochs.last_done() : home_.epochs.open();
  base::interleave();
  if (!own->put_at_once(table, h, b, is_still(freed, life))) [[unlikely]]
    return false;
  stats::add(mine.nodes[node_].bytes_out, bytes);
  return true;
}

}  // namespace gpumem::resource
