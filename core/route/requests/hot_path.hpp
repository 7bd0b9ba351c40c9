// Fast paths of requests and frees, inlined into the hooks, which alone include this: two extra calls were
// a good part of a pair. allocate() and release() are rows of steps: `_fast` ones are inline and serve the
// usual case, `_slow` ones are calls (slow_steps.cpp). Whatever is rare starts again in allocate_carefully()
// or release_carefully(), which take the same steps and the slow ones between. Any thread; nothing here
// throws, locks, or makes a driver call on a hit.
#pragma once

#include "core/base/threads/interleave.hpp"
#include "core/recording/writer/record.hpp"
#include "core/resource/pools/suballocator.hpp"
#include "core/route/requests/slow_steps.hpp"
#include "core/route/returns.hpp"
#include "core/route/router_state.hpp"
#include "core/stats/callers/libraries.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::route {

// Moves on when a stream or a context comes or goes: what a caller remembers of either is then old.
inline std::uint64_t changes() noexcept {
  return present != nullptr ? present->streams_changed.load(std::memory_order_acquire) : 0;
}

// Whether a capture runs anywhere in the process.
inline bool captures_run() noexcept {
  return stream_order::any_captures();
}

// --- the steps of a request ---

[[gnu::always_inline]] inline stream_place find_place_fast(router_state& s,
                                                           driver::request const& request) noexcept {
  return request.stream_ordered ? place_of(s, request.stream, request.context)
                                : stream_place{.entry = remembered_entry_of(s, request.context)};
}

// Nothing rare holds: the context is well, no capture and no count of the program's own pool is concerned.
// Whether it is the one that was remembered comes last, as an entry is another context's when its own has
// ended.
[[gnu::always_inline]] inline bool is_usual_fast(router_state& s, stream_place const& place,
                                                 driver::request const& request) noexcept {
  if (place.entry == nullptr || !place.entry->order.well()) return false;
  if (!memo.is_of(s.streams_changed.load(std::memory_order_acquire))) return false;
  if (!request.stream_ordered) return true;
  return s.pool_use_of(place.entry->device) == pool_use::served && place.is == stream_place::kind::usual;
}

// What this thread did last is most often what it does now: of the steps from the context to its magazine,
// each of which waits for the one before, none is left.
[[gnu::always_inline]] inline supply find_supply_fast(router_state& s, context_entry& entry,
                                                      std::size_t number, stream_order::slot slot,
                                                      bool stream_ordered) noexcept {
  auto const& last = resource::own_slots->last;
  if (!stream_ordered && last.begins_at(&entry, number)) [[likely]]
    return {.quick = last.to, .own = last.own, .remembered = true};
  if (resource::suballocator* const quick = entry.quick_of(number); quick != nullptr) [[likely]]
    return {.quick = quick, .own = quick->known_magazine_of(slot)};
  return {.chain = entry.chain_of(number, s.factory)};
}

// From a chain whose top keeps no magazines of its own, as the arena, whose every request comes this way.
[[gnu::always_inline]] inline taken take_from_chain_fast(supply const& from, context_entry& entry,
                                                         std::size_t number, driver::request const& request,
                                                         stream_order::slot slot,
                                                         CUdeviceptr* result) noexcept {
  driver::request const asked = request;
  std::uint32_t const life = entry.order.life();
  resource::allocation_request const wanted{.bytes = request.bytes,
                                            .slot = slot,
                                            .stream = request.stream,
                                            .flags = request.flags,
                                            .alignment = request.alignment,
                                            .by = &asked};
  try {
    return {from.chain->top().allocate(wanted)};
  } catch (driver::allocation_failed const& failed) {
    return {.refusal = refuse(asked, entry, life, number, failed, result)};
  }
}

// The block is the program's now.
[[gnu::always_inline]] inline void hand_out_fast(space::block& b, std::uint64_t handed, std::uint64_t asked,
                                                 stream_order::slot slot) noexcept {
  b.rounding = static_cast<std::uint32_t>(handed - asked);
  b.where = slot;
}

// For this thread's next request, and for the free of this block.
[[gnu::always_inline]] inline void remember_fast(context_entry& entry, std::size_t number, supply& from,
                                                 std::uint64_t address, space::handle h,
                                                 stream_order::slot slot, bool stream_ordered,
                                                 std::uint32_t removals) noexcept {
  auto* slots = resource::own_slots;
  if (slots == &resource::no_slots) [[unlikely]] {
    slots = resource::attach_thread();
    if (slots == nullptr) return;
  }
  if (!stream_ordered && !from.remembered && from.quick != nullptr) [[unlikely]] {
    from.own = from.quick->known_magazine_of(slot);
    if (from.own != nullptr) slots->last = {&entry, number, from.quick, from.own};
  }
  // A stream's is not this thread's for good: the block may be another stream's when this thread frees it.
  slots->recent.remember(address, h, from.quick, slot == stream_order::no_slot ? from.own : nullptr,
                         removals);
}

[[gnu::always_inline]] inline void count_request_fast(stats::shard& mine, context_entry& entry,
                                                      driver::request const& request, space::block& b,
                                                      space::handle h, std::uint64_t handed) noexcept {
  std::uint64_t const asked = request.bytes;
  stats::size_bucket& bucket = mine.sizes[stats::bucket_of(asked)];
  stats::add(bucket.count, 1);
  stats::add(bucket.bytes, asked);
  if (request.kind == driver::memory_kind::host) return;
  b.holder = stats::place_of(entry.device_slot, stats::library_of(request.caller));
  stats::add(mine.libraries[b.holder].allocated, asked);
  auto& counters = mine.devices[entry.device_slot];
  stats::add(counters.allocated_blocks, 1);
  stats::add(counters.allocated_requested, asked);
  stats::add(counters.allocated_handed, handed);
  if (stats::must_sample(counters)) [[unlikely]]
    look_closer_slow(entry, b, h, driver::request(request));
  if (stats::must_settle(counters)) [[unlikely]]
    settle(entry);
}

// `request` by value, and a copy for everybody else: what nothing else points to can stay in registers.
// `careful` is in slow_steps.cpp alone: what is rare would take registers from what is not.
template <bool careful = false>
[[gnu::always_inline]] inline outcome allocate(driver::request request, CUdeviceptr* result) noexcept {
  router_state* const s = present;
  if (s == nullptr) [[unlikely]]
    return pass;
  stream_place const place = careful ? find_place_slow(*s, request) : find_place_fast(*s, request);
  bool counts = false;  // in the figures of a pool that the program asked for
  if constexpr (careful) {
    if (auto const answer = answer_request_slow(*s, place, request, result, counts)) return *answer;
  } else if (!is_usual_fast(*s, place, request)) [[unlikely]] {
    return allocate_carefully(driver::request(request), result);
  }
  context_entry& entry = *place.entry;
  stream_order::slot const slot = request.stream_ordered ? place.slot : stream_order::no_slot;
  std::size_t number = static_cast<std::size_t>(request.kind);
  rule_set* const rules = request.named != 0 ? s->every_rule : s->rules;
  if (rules != nullptr && !take_rule(*rules, entry, driver::request(request), number)) return pass;
  supply from = find_supply_fast(*s, entry, number, slot, request.stream_ordered);
  if (from.quick == nullptr && from.chain == nullptr) [[unlikely]]
    return pass;
  std::uint32_t const removals = s->where.segments.removals();
  base::interleave();
  resource::cache_look look;
  space::handle h = space::none;
  if (from.quick != nullptr)
    h = from.quick->try_allocate_cached(s->where.blocks, from.own, request.bytes, slot, request.alignment,
                                        look);
  bool const hit = h != space::none;
  if (!hit) [[unlikely]] {
    taken const got = from.quick == nullptr
                          ? take_from_chain_fast(from, entry, number, request, slot, result)
                          : take_slow(from, entry, number, driver::request(request), slot, look, result);
    if (got.h == space::none) return got.refusal;
    h = got.h;
  }
  space::block& b = s->where.blocks[h];
  std::uint64_t const handed = b.bytes(), address = b.begin();
  stats::shard& mine = stats::local();
  if (hit) [[likely]]
    from.quick->count_hit(mine, slot, handed);
  bool const has_no_slot =
      careful && place.is == stream_place::kind::without_slot && !GPUMEM_MUTANT(slotless_is_plain);
  hand_out_fast(b, handed, request.bytes, has_no_slot ? stream_order::in_some_order : slot);
  base::interleave();
  if (careful && counts) count_taken(*s, entry.device, b);
  remember_fast(entry, number, from, address, h, slot, request.stream_ordered, removals);
  *result = address;
  count_request_fast(mine, entry, request, b, h, handed);
  return {CUDA_SUCCESS};
}

// --- the steps of a free ---

[[gnu::always_inline]] inline resource::recent_blocks::found find_block_fast(router_state& s,
                                                                             CUdeviceptr address) noexcept {
  auto known = resource::own_slots->recent.find(s.where, address);
  if (known.h == space::none) known.h = live_block_at(s, address);
  return known;
}

// The same as is_usual_fast; a free that has to do more than free is rare.
[[gnu::always_inline]] inline bool is_usual_fast(resource::chain_context const& home,
                                                 driver::free_request const& release) noexcept {
  bool const duty = !release.stream_ordered && resource::free_duties.load(std::memory_order_relaxed) != 0;
  return home.epochs.well() && !duty;
}
// From the first end of a context on each free is no more than that.
inline bool is_usual_after_an_end(resource::chain_context const& home) noexcept {
  return home.epochs.well() && resource::free_duties.load(std::memory_order_relaxed) == resource::asks;
}

// After which work the memory is free; false: that is rare.
[[gnu::always_inline]] inline bool order_fast(router_state& s, resource::chain_context const& home,
                                              driver::free_request const& release,
                                              freed_after& when) noexcept {
  if (!release.stream_ordered) return true;
  stream_place const place = place_of(s, release.stream, release.context);
  if (place.entry == nullptr || &place.entry->order != &home.epochs || place.capturing()) return false;
  when.slot = place.slot;
  when.stream = release.stream;
  return true;
}

// A block that the program gives back, as it was when it was taken: where its context ends meanwhile the
// handle is another block's before this free is done.
struct given {
  std::uint64_t bytes, asked;
  std::uint32_t holder;

  explicit given(space::block const& b) noexcept
      : bytes(b.bytes()), asked(bytes - b.rounding), holder(b.holder) {}  // each is read once
};

// For tests: as long as a context takes to end, and the next one to begin and to serve.
[[gnu::always_inline]] inline void linger(bool does) noexcept {
  for (int i = 0; does && i < 100; ++i) base::interleave_surely();
}

// Of two threads that free one block at once, one gets the driver's answer for a second free.
[[gnu::always_inline]] inline bool take_from_program_fast(space::block& b) noexcept {
  space::state expected = space::state::live;
  return b.now.compare_exchange_strong(expected, space::state::cached, std::memory_order_acq_rel);
}

[[gnu::always_inline]] inline void count_free_fast(stats::shard& mine, resource::chain_context const& home,
                                                   given const& was, bool on_another_stream) noexcept {
  auto& counters = mine.devices[home.device_slot];
  stats::add(counters.freed_blocks, 1);
  stats::add(counters.freed_requested, was.asked);
  stats::add(counters.freed_handed, was.bytes);
  stats::add(stats::holder_at(mine, was.holder).freed, was.asked);
  if (on_another_stream) stats::add(counters.cross_stream_frees, 1);
}

// Into the magazine of this thread or stream; false: nothing was done.
[[gnu::always_inline]] inline bool cache_fast(router_state& s, stats::shard& mine, resource::resource& owner,
                                              resource::recent_blocks::found const& known, space::block& b,
                                              freed_after const& when) noexcept {
  resource::suballocator* const quick = owner.quick();
  if (owner.parent() != nullptr || quick == nullptr) return false;
  resource::magazine* const own = known.own != nullptr && when.slot == stream_order::no_slot
                                      ? known.own
                                      : quick->known_magazine_of(when.slot);
  return quick->try_cache(s.where.blocks, own, mine, known.h, b, when.settled, when.life);
}

template <bool careful = false>
[[gnu::always_inline]] inline outcome release(driver::free_request release) noexcept {
  router_state* const s = present;
  if (s == nullptr) [[unlikely]]
    return pass;
  // Until its context has ended.
  for (int i = 0;
       (GPUMEM_MUTANT(late_pass) || GPUMEM_MUTANT(passes_unseen)) && i < 1000 && owns(release.address); ++i)
    base::interleave_surely();
  auto const known = find_block_fast(*s, release.address);
  if (known.h == space::none) [[unlikely]]
    return release_of_none(driver::free_request(release));
  base::interleave();
  linger(GPUMEM_MUTANT(late_find));
  space::block& b = s->where.blocks[known.h];
  resource::resource& owner = known.owner != nullptr ? *known.owner : resource::owner_of(s->where, known.h);
  resource::chain_context const& home = owner.home();
  bool const of_host = home.kind == driver::memory_kind::host;
  if constexpr (careful) {
    if (auto const answer = answer_under_ended(release)) return *answer;
    if (auto const answer = answer_free_slow(home, release)) return *answer;
  } else if (!is_usual_fast(home, release)) [[unlikely]] {
    if (!is_usual_after_an_end(home)) return release_carefully(driver::free_request(release));
    if (auto const answer = answer_under_ended(driver::free_request(release))) return *answer;
  }
  if (of_host != (release.kind == driver::memory_kind::host)) [[unlikely]]
    return {refusal_of_none(driver::free_request(release))};
  freed_after when{.life = home.epochs.life()};
  if constexpr (careful) {
    if (auto const answer = order_slow(*s, home, release, when)) return *answer;
  } else if (!order_fast(*s, home, release, when)) [[unlikely]] {
    return release_carefully(driver::free_request(release));
  }
  if (home.kind == driver::memory_kind::managed && release.stream_ordered) [[unlikely]]
    return {CUDA_ERROR_NOT_SUPPORTED};  // natively (580.159)
  if (b.begin() != release.address) [[unlikely]]
    return not_taken();
  given was(b);
  // All blocks are where a recording runs.
  if (b.is(space::rare) && !GPUMEM_MUTANT(free_told_too_late)) [[unlikely]]
    recording::free_begins();
  linger(GPUMEM_MUTANT(late_find) || GPUMEM_MUTANT(taken_by_its_handle));
  if (!take_from_program_fast(b)) [[unlikely]]
    return not_taken();
  // Only now nothing else gets the handle, which may have become another block's just before.
  if (b.begin() != release.address && !GPUMEM_MUTANT(taken_by_its_handle)) [[unlikely]]
    return leave_to_program(b);
  linger(GPUMEM_MUTANT(late_free) || GPUMEM_MUTANT(late_free_kept) || GPUMEM_MUTANT(counted_late) ||
         GPUMEM_MUTANT(guard_of_another_life) || GPUMEM_MUTANT(free_told_too_late));
  if (GPUMEM_MUTANT(counted_late)) was = given(b);
  stats::shard& mine = stats::local();
  if (!of_host)
    count_free_fast(mine, home, was,
                    release.stream_ordered && (b.where & ~stream_order::in_some_order) != when.slot);
  bool serves_again = true;  // one that another process may have open does not
  if (b.is(space::rare)) [[unlikely]] {
    renewed const now =
        make_new(*s, known.h, release.stream_ordered, release.stream, home.epochs.ended_since(when.life));
    when.bytes = was.bytes;
    if (now.as_new && now.unproven) {
      take_back_unproven(owner, known.h, when, driver::free_request(release));
      return {CUDA_SUCCESS};
    }
    serves_again = now.as_new;
  }
  base::interleave();
  if (serves_again && cache_fast(*s, mine, owner, known, b, when)) [[likely]] {
    if constexpr (careful) do_duties(home, release, was.bytes);
    return {CUDA_SUCCESS};
  }
  if (serves_again) {
    driver::free_request const asked = release;
    resource::take_back(owner, known.h,
                        {.slot = when.slot,
                         .settled = when.settled,
                         .in_order = release.stream_ordered,
                         .stream = when.stream,
                         .life = when.life,
                         .bytes = was.bytes,
                         .by = &asked});
  } else {
    withhold_slow(owner, known.h, when, driver::free_request(release));
  }
  if constexpr (careful) do_duties(home, release, was.bytes);
  return {CUDA_SUCCESS};
}

}  // namespace gpumem::route
