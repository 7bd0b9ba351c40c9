// Fast paths of requests and frees, inlined into the hooks, which alone include this: two extra calls were
// a good part of a pair. allocate() and release() serve the usual case; whatever is rare starts again in
// allocate_carefully() or release_carefully(). Any thread; nothing here throws, locks, or makes a driver
// call on a hit.
#pragma once

#include "core/base/threads/uncancelled.hpp"
#include "core/resource/pools/suballocator.hpp"
#include "core/route/default_pools.hpp"
#include "core/route/state.hpp"
#include "core/stream_order/relaxed_mode.hpp"
#include "core/stream_order/watched_calls.hpp"

namespace gpumem::route {

// What a chain refused: the program hears of it, unless the context is gone.
[[gnu::noinline, gnu::cold]] outcome refuse(driver::request const& request, context_entry& entry,
                                            std::size_t number, driver::allocation_failed const& failed,
                                            CUdeviceptr* result) noexcept;

// The first rule that matches names the chain; false: the driver must answer.
bool take_rule(rule_set& rules, context_entry const& entry, driver::request const& request,
               std::size_t& number) noexcept;

// The same as allocate() and release() where something rare holds, from the beginning: a context that is not
// well, a pool whose figures are kept, work of another context. What asks for it was only looked at so far.
[[gnu::noinline]] outcome allocate_carefully(driver::request const& request, CUdeviceptr* result) noexcept;
[[gnu::noinline]] outcome release_carefully(driver::release const& release) noexcept;
// The address is no live block's.
[[gnu::noinline]] outcome release_of_none(driver::release const& release) noexcept;

// The context of `ended` is gone, though nobody has said so: the same again, of what its handle names now.
[[gnu::noinline, gnu::cold]] outcome allocate_elsewhere(context_entry& ended, driver::request const& request,
                                                        CUdeviceptr* result) noexcept;

// Host memory is every device's: natively its free waits for the work of all contexts. The epochs of its own
// context cover that one's; the host waits for the others. False where that cannot be had now.
bool synchronize_other_contexts(state& s, resource::chain_context const& home) noexcept;

// A freed block of which something rare holds: what the program set on it is undone, and what counts it hears
// of its end. False: it must not serve again.
bool made_new(state& s, space::handle h, bool stream_ordered) noexcept;

// Moves on when a stream or a context comes or goes: what a caller remembers of either is then old.
inline std::uint64_t changes() noexcept {
  return present != nullptr ? present->streams_changed.load(std::memory_order_acquire) : 0;
}

// What the driver would say to a free of a block that no capture made: its refusal for the sake of the stream
// or of captures, or CUDA_SUCCESS.
CUresult refusal_by_driver(driver::release const& release) noexcept;
// What it says to a free of no block, asked with an address that is nobody's: of the context, the stream and
// captures it knows more than is known here. Never CUDA_SUCCESS.
CUresult refusal_of_none(driver::release const& release) noexcept;

// Whether a capture runs anywhere in the process.
inline bool captures_run() noexcept {
  return stream_order::active_captures.load(std::memory_order_acquire) > 0;
}

// `request` by value, and a copy for everybody else: what nothing else points to can stay in registers.
// `careful` is in router.cpp alone: what is rare would take registers from what is not.
template <bool careful = false>
[[gnu::always_inline]] inline outcome allocate(driver::request request, CUdeviceptr* result) noexcept {
  state* const s = present;
  if (s == nullptr) [[unlikely]]
    return pass;
  stream_place const place = request.stream_ordered ? place_of(*s, request.stream, request.context)
                                                    : stream_place{.entry = entry_of(*s, request.context)};
  context_entry* const entry = place.entry;
  bool const well = entry != nullptr && entry->order.well();
  if constexpr (!careful) {
    if (!well) [[unlikely]]
      return allocate_carefully(driver::request(request), result);
  } else if (!well) {
    if (entry == nullptr || entry->order.broken()) return pass;
    if (entry->order.ending() && !entry->lives())
      return allocate_elsewhere(*entry, driver::request(request), result);
    CUresult const refusal = place.capturing ? CUDA_SUCCESS : stream_order::ask_captures();
    if (refusal != CUDA_SUCCESS) {
      *result = 0;
      return {refusal};
    }
  }
  stream_order::slot slot = stream_order::no_slot;
  bool counts = false;
  if (request.stream_ordered) {
    pool_use const use = s->pool_use_of(entry->device);
    if constexpr (careful) {
      if (use == pool_use::drivers || place.capturing) return pass;
      counts = use == pool_use::counted;
    } else if (use != pool_use::served || place.capturing) [[unlikely]] {
      return allocate_carefully(driver::request(request), result);
    }
    slot = place.slot;
  }
  std::size_t number = static_cast<std::size_t>(request.kind);
  if (s->rules != nullptr && !take_rule(*s->rules, *entry, driver::request(request), number)) return pass;
  // What this thread did last is most often what it does now: of the steps from the context to its magazine,
  // each of which waits for the one before, none is left.
  auto const& last = resource::own_slots->last;
  bool const known = !request.stream_ordered && last.begins_at(entry, number);
  resource::suballocator* const quick = known ? last.to : entry->quick_of(number);
  resource::chain* const chain = quick != nullptr ? nullptr : entry->chain_of(number, s->factory);
  if (quick == nullptr && chain == nullptr) [[unlikely]]
    return pass;
  std::uint32_t const removals = s->where.segments.removals();
  std::optional<space::epoch_id> waiting;
  resource::magazine* own = known ? last.own : quick != nullptr ? quick->known_magazine_of(slot) : nullptr;
  space::handle h = quick != nullptr
                        ? quick->try_allocate_cached(s->where.blocks, own, request.bytes, slot, 0, waiting)
                        : space::none;
  if (h == space::none) [[unlikely]] {
    driver::request const asked = request;
    resource::allocation_request const wanted{
        .bytes = request.bytes, .slot = slot, .stream = request.stream, .flags = request.flags, .by = &asked};
    try {
      h = quick != nullptr ? quick->allocate_slow(wanted, waiting) : chain->top().allocate(wanted);
    } catch (driver::allocation_failed const& failed) {
      return refuse(asked, *entry, number, failed, result);
    }
  }
  space::block& b = s->where.blocks[h];
  std::uint64_t const handed = b.bytes();
  b.rounding = static_cast<std::uint32_t>(handed - request.bytes);
  b.where = slot;
  if (careful && counts) count_taken(*s, entry->device, b);
  std::uint64_t const address = b.begin();
  auto* const slots =
      resource::own_slots != &resource::no_slots ? resource::own_slots : resource::attach_thread();
  if (slots != nullptr) [[likely]] {
    if (!request.stream_ordered && !known && quick != nullptr) [[unlikely]] {
      own = quick->known_magazine_of(slot);
      if (own != nullptr) slots->last = {entry, number, quick, own};
    }
    // A stream's is not this thread's for good: the block may be another stream's when this thread frees it.
    slots->recent.remember(address, h, quick, slot == stream_order::no_slot ? own : nullptr, removals);
  }
  *result = address;
  stats::shard& mine = stats::local();
  stats::size_bucket& bucket = mine.sizes[stats::bucket_of(request.bytes)];
  stats::add(bucket.count, 1);
  stats::add(bucket.bytes, request.bytes);
  if (request.kind != driver::memory_kind::host) {
    auto& counters = mine.devices[entry->device_slot];
    stats::add(counters.allocated_blocks, 1);
    stats::add(counters.allocated_requested, request.bytes);
    stats::add(counters.allocated_handed, handed);
    if (stats::must_settle(counters)) [[unlikely]]
      settle(*entry);
  }
  return {CUDA_SUCCESS};
}

// Of a context that is gone: the address is the driver's now, or a block of another one. It is looked up
// again once the call that ended the context has taken its blocks off the map, and waits for nothing any
// more.
outcome release_after_end(resource::chain_context const& home, driver::release const& release) noexcept;

template <bool careful = false>
[[gnu::always_inline]] inline outcome release(driver::release release) noexcept {
  state* const s = present;
  if (s == nullptr) [[unlikely]]
    return pass;
  auto const known = resource::own_slots->recent.find(s->where, release.address);
  space::handle const h = known.h != space::none ? known.h : live_block_at(*s, release.address);
  if (h == space::none) [[unlikely]]
    return release_of_none(driver::release(release));
  space::block& b = s->where.blocks[h];
  resource::resource& owner = known.owner != nullptr ? *known.owner : resource::owner_of(s->where, h);
  resource::chain_context const& home = owner.home();
  bool const of_host = home.kind == driver::memory_kind::host;
  if constexpr (!careful) {
    bool const barrier = !release.stream_ordered && s->synchronize_on_free;
    if (!home.epochs.well() || barrier) [[unlikely]]
      return release_carefully(driver::release(release));
  } else if (!home.epochs.well()) {
    if (home.epochs.broken()) return pass;  // the driver tells the program that its context is lost
    if (home.epochs.ending()) {
      whose const found = of_ending(home, release.address);
      if (found == whose::untold) return pass;
      if (found == whose::others) return release_after_end(home, release);
    }
    CUresult const refusal = refusal_by_driver(release);
    if (refusal != CUDA_SUCCESS) return {refusal};
  }
  if (of_host != (release.kind == driver::memory_kind::host)) [[unlikely]] {
    return {CUDA_ERROR_INVALID_VALUE};
  }
  stream_order::slot slot = stream_order::no_slot;
  CUstream stream = nullptr;
  bool settled = false;
  if (release.stream_ordered) {
    stream_place const place = place_of(*s, release.stream, release.context);
    bool const same = place.entry != nullptr && place.entry->handle == home.context;
    if constexpr (!careful) {
      if (!same || place.capturing) [[unlikely]]
        return release_carefully(driver::release(release));
    }
    if (place.entry == nullptr) return pass;
    if (place.capturing) return {refusal_by_driver(release)};
    if (same) {
      slot = place.slot;
      stream = release.stream;
    } else {
      // The work of another context is no part of this one's epochs: the host waits for it.
      base::uncancelled const held;
      stream_order::relaxed_mode relaxed(true);
      driver::real.cuStreamSynchronize(release.stream);
    }
  } else if (careful && s->synchronize_on_free) {
    // While a stream captures the barrier cannot be had: this free waits for its epoch like any other.
    CUresult const code = home.epochs.synchronize();
    if (home.epochs.broken()) return pass;
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) return {code};
    settled = code == CUDA_SUCCESS;
  }
  // Of two threads that free one block at once, one gets the driver's answer for a second free.
  space::state expected = space::state::live;
  if (!b.now.compare_exchange_strong(expected, space::state::cached, std::memory_order_acq_rel))
      [[unlikely]] {
    return {CUDA_ERROR_INVALID_VALUE};
  }
  if (!of_host) {
    auto& counters = stats::local().devices[home.device_slot];
    stats::add(counters.freed_blocks, 1);
    stats::add(counters.freed_requested, b.bytes() - b.rounding);
    stats::add(counters.freed_handed, b.bytes());
    if (release.stream_ordered && b.where != slot) stats::add(counters.cross_stream_frees, 1);
  }
  bool const may_serve = !of_host || !owner.keeps_freed() || synchronize_other_contexts(*s, home);
  // A block that another process may have open serves nobody again. One with work that nobody can wait for
  // stays as it is until its context ends.
  bool const as_new = !b.is(space::rare) || made_new(*s, h, release.stream_ordered);
  bool const serves_again = as_new && may_serve;
  bool const is_quick = serves_again && owner.parent() == nullptr && owner.quick() != nullptr;
  if (is_quick) [[likely]] {
    resource::magazine* const own = known.own != nullptr && slot == stream_order::no_slot
                                        ? known.own
                                        : owner.quick()->known_magazine_of(slot);
    if (owner.quick()->try_cache(s->where.blocks, own, h, settled)) [[likely]]
      return {CUDA_SUCCESS};
  }
  driver::release const asked = release;
  resource::free_order const order{.slot = slot, .settled = settled, .stream = stream, .by = &asked};
  if (serves_again) {
    resource::take_back(owner, h, order);
  } else {
    resource::tell_parents(owner, h, order);
    if (may_serve) owner.withhold(h, order);
  }
  return {CUDA_SUCCESS};
}

}  // namespace gpumem::route
