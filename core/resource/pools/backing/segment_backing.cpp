// See segment_backing.hpp.
#include "core/resource/pools/backing/segment_backing.hpp"

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/mutant.hpp"
#include "core/resource/free_duties.hpp"
#include "core/resource/in_hand.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::resource {

void segment_backing::prepare(pool_lock& held) {
  GPUMEM_EXPECTS(held.owns_lock());
  in_hand hand;
  add(held, reserve(held, pool_.options.initial, pool_.options.initial, {}, hand));
}

space::segment& segment_backing::add(pool_lock& held, extent const& memory) {
  if (!pool_.region.add_segment(memory.address, memory.bytes, memory.token, memory.contextless)) {
    hand_back(held, memory);
    throw pool_.refuse.no_tables();
  }
  space::segment& made = *pool_.region.segments().back();
  pool_.home.where.blocks[made.first].freed = pool_.home.epochs.open();  // its age counts from now on
  return made;
}

std::uint64_t segment_backing::size_for(std::uint64_t bytes, growth_request const& wanted) const noexcept {
  if (wanted.apart) return bytes;
  std::uint64_t const left = pool_.options.maximum - taken();
  if (wanted.by_itself && wanted.at_least == 0 && wanted.ahead == 0)
    return std::min(policy().step_by_itself(bytes, left), left) / space::unit * space::unit;
  space::region const& region = pool_.region;
  bool const even = wanted.of_many && wanted.at_least == 0;
  std::uint64_t const idle = even ? region.idle_bytes() - region.pending_bytes() : 0;
  std::uint64_t const step = policy().step(std::max({bytes, wanted.at_least, wanted.ahead}),
                                           region.reserved_bytes(), pool_.home.epochs.capturing(), idle);
  return std::min(step, left) / space::unit * space::unit;
}

bool segment_backing::may_take_more(growth_request const& wanted) const noexcept {
  suballocator_options const& o = pool_.options;
  return !wanted.apart && !wanted.by_itself && wanted.at_least == 0 && o.growth == 0 &&
         o.round_to == space::unit && !o.takes_no_more;
}

// Not where others of this process take memory of the device by calls that no chain serves: it would be
// missing there.
std::uint64_t segment_backing::with_remainder(pool_lock& held, std::uint64_t bytes,
                                              growth_request const& wanted) noexcept {
  suballocator_options const& o = pool_.options;
  if (!may_take_more(wanted) || stats::get(stats::gauges(pool_.home.device).observed) != 0) return 0;
  std::optional<std::uint64_t> free;
  {
    unlocked const meanwhile(held);
    free = pool_.upstream.free_at_driver();
  }
  if (!free) return 0;
  return regrowth_.with_remainder(bytes, std::min(*free, o.maximum - std::min(o.maximum, taken())));
}

extent segment_backing::reserve(pool_lock& held, std::uint64_t size, std::uint64_t bytes,
                                growth_request const& wanted, in_hand& hand) {
  for (;; size = bytes) {  // the request itself may still fit
    growing_ += size;
    try {
      extent memory;
      {
        unlocked const meanwhile(held);
        memory = pool_.upstream.reserve(
            {.bytes = size, .flags = wanted.flags, .alignment = wanted.alignment, .hand = &hand});
      }
      growing_ -= size;
      return memory;
    } catch (driver::allocation_failed const& refused) {
      growing_ -= size;
      if (size == bytes) throw;
      // A refusal takes the driver half a millisecond.
      bool const for_lack =
          refused.code() == CUDA_ERROR_OUT_OF_MEMORY && refused.kind() == driver::refused_by::driver;
      if (for_lack && pool_.upstream.refuses_as_well(bytes, size)) throw pool_.refuse.no_memory(bytes);
    }
  }
}

// The GPU's pace is kept, but work that does not end must not keep from the driver what is done, where that
// is enough.
bool segment_backing::is_gpu_done(pool_lock& held, std::uint64_t bytes) noexcept {
  constexpr std::uint64_t pace_ns = 2'000'000;
  if (pool_.region.empty_segment() == nullptr) return true;
  bool const is_enough = !requests_wait() && pool_.region.empty_bytes() >= bytes;
  unlocked const meanwhile(held);
  if (!is_enough) return pool_.home.epochs.wait_for_all();
  pool_.home.epochs.wait(pool_.home.epochs.open(), pace_ns);
  return true;
}

excess::remedy segment_backing::too_much(pool_lock& held, std::uint64_t bytes,
                                         growth_request const& wanted) noexcept {
  space::region& region = pool_.region;
  suballocator_options const& o = pool_.options;
  bool const is_told = o.initial != 0 || (o.release_threshold != ~std::uint64_t{0} && !o.one_magazine);
  bool const may = may_take_more(wanted) && !is_told && pool_.upstream.takes_back_when_idle() &&
                   !stream_order::any_captures();
  if (!may) return {};
  excess::state const is{.reserved = region.reserved_bytes(),
                         .in_use = region.reserved_bytes() - region.idle_bytes(),
                         .pending = region.pending_bytes(),
                         .empty = excess::is_little(region.reserved_bytes()) ? region.empty_bytes() : 0,
                         .plenty = policy().spare() / 16};
  if (excess::may_wait_soon(is)) {
    unlocked const meanwhile(held);
    pool_.home.epochs.collect(pool_.home.epochs.open());
  }
  return excess_.note_growth(bytes, is, base::now_ns());
}

// What is waited for is the oldest of what was freed: the GPU stays at work meanwhile, and the host is ahead
// of it by less. Where memory goes back only then, all that it has to do by now. False: in vain.
bool segment_backing::wait_for_excess(pool_lock& held, std::uint64_t bytes, std::uint64_t wait_ns) noexcept {
  space::region& region = pool_.region;
  stream_order::epochs& epochs = pool_.home.epochs;
  std::uint64_t const begun = base::now_ns();
  bool const at_once = pool_.upstream.takes_back_at_once();
  bool progress = false;
  auto const is_over = [&] {
    region.reap([&](space::epoch_id s) { return epochs.is_done(s) || GPUMEM_MUTANT(excess_is_done); });
    return at_once ? !region.has_pending() || region.empty_bytes() >= bytes : progress;
  };
  while (!is_over()) {
    if (!excess_.may_wait(epochs.last_done())) return false;
    std::uint64_t const spent = base::now_ns() - begun;
    if (spent >= wait_ns) break;
    space::epoch_id const until = at_once ? region.oldest_epoch() : epochs.open();
    bool waited = false;
    {
      unlocked const meanwhile(held);
      waited = epochs.wait(until, wait_ns - spent);
    }
    if (!waited) {
      if (!progress) excess_.note_in_vain(epochs.last_done());
      return progress;
    }
    progress = true;
  }
  return true;
}

// Natively no request gives anything back: it is not to take much longer for what later ones save. A capture
// may have begun while it waited.
std::uint64_t segment_backing::release_excess(pool_lock& held, std::uint64_t bytes,
                                              std::uint64_t most_ns) noexcept {
  std::uint64_t const until = base::now_ns() + most_ns;
  std::uint64_t gone = 0;
  while (gone < bytes && base::now_ns() < until && !stream_order::any_captures()) {
    space::segment* const s = pool_.region.empty_segment();
    if (s == nullptr) break;
    gone += release_segment(held, s, requests_wait());
  }
  return gone;
}

// Natively a request of a stream waits for nothing, and each free of a plain block waits for all. Where the
// time is up, or the GPU gets nowhere, a stream's request takes all the same what its next ones go round in.
segment_backing::eased segment_backing::ease(pool_lock& held, std::uint64_t bytes,
                                             growth_request const& wanted,
                                             excess::remedy const& too) noexcept {
  std::uint64_t const begun = base::now_ns(), joined = excess::to_join(bytes);
  bool const may_wait = too.goes != 0 && too.wait_ns != 0;
  bool const done = may_wait && wait_for_excess(held, std::max(too.goes, bytes), too.wait_ns);
  std::uint64_t const since = base::now_ns();
  bool const gives = too.goes != 0 && (pool_.upstream.takes_back_at_once() || !has_work_left(held));
  std::uint64_t const gone = gives ? release_excess(held, std::max(too.goes, joined), too.give_ns) : 0;
  std::uint64_t comes = std::min(gone, joined);
  if (wanted.in_order && !would_exceed(joined)) {
    std::uint64_t const room = too.most - std::min(too.most, pool_.region.reserved_bytes());
    comes = too.goes == 0 || (may_wait && !done) ? joined : std::min(joined, room);
  }
  return {comes, wanted.in_order ? since - begun : 0, since};
}

bool segment_backing::has_work_left(pool_lock& held) noexcept {
  unlocked const meanwhile(held);
  return !pool_.home.epochs.collect(pool_.home.epochs.open());
}

// Segments of a driver begin at pages, which is aligned enough for nearly all; one made for one block has to
// hold it.
space::handle segment_backing::grow(pool_lock& held, growth_request const& wanted) {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint32_t const life = pool_.home.epochs.life();
  std::uint64_t const bytes = wanted.anywhere || wanted.apart ? wanted.room() : wanted.units * space::unit;
  // Where memory is short, or to be spared: what is empty is of no use for this request. Below a maximum what
  // fits exactly gets the pool fuller before it refuses.
  std::uint64_t comes_back = 0;
  bool const at_bound = would_exceed(bytes);
  bool const has_room = at_bound && taken() + bytes <= pool_.options.maximum && ahead.take_room(bytes);
  bool const may_give = at_bound && !has_room && pool_.region.idle_bytes() > 0;
  std::uint64_t const begun = may_give ? base::now_ns() : 0;
  if (may_give && is_gpu_done(held, bytes)) {
    bool const was_behind = base::now_ns() - begun >= growth_policy::price_of_growth_ns;
    std::uint64_t const idle = pool_.region.idle_bytes(), reserved = pool_.region.reserved_bytes();
    bool const joins = may_take_more(wanted) && policy().spares(reserved, bytes);
    std::uint64_t const goes = joins ? regrowth::to_join(bytes, reserved) : bytes;
    std::uint64_t const gone = release_empty(held, idle - std::min(idle, goes), requests_wait());
    if (goes != bytes) comes_back = gone;
    if (was_behind) ahead.note_late(gone, reserved);
  }
  excess::remedy const too = at_bound ? excess::remedy{} : too_much(held, bytes, wanted);
  eased const room = too.needed ? ease(held, bytes, wanted, too) : eased{.comes_back = comes_back};
  bool const is_short = would_exceed(bytes);
  std::uint64_t const remainder = is_short && regrowth_.is_usual() ? with_remainder(held, bytes, wanted) : 0;
  std::uint64_t const maximum = pool_.options.maximum;
  if (taken() > maximum || bytes > maximum - taken())
    throw pool_.refuse.at_maximum(pool_.region.reserved_bytes(), bytes);
  count_growth();
  comes_back = std::min(room.comes_back, maximum - taken()) / space::unit * space::unit;
  std::uint64_t const size = std::max({size_for(bytes, wanted), remainder, comes_back});
  in_hand hand;
  extent const memory = reserve(held, size, bytes, wanted, hand);
  // No time is lost while the GPU has work.
  if (too.goes != 0 && !has_work_left(held))
    excess_.spent(room.waited_ns + std::min(base::now_ns() - room.since, too.give_ns));
  // What came back after the context ended is of the one that its handle names by now.
  if (pool_.home.epochs.ended_since(life)) {
    hand_back(held, memory);
    throw pool_.refuse.no_context();
  }
  space::segment& made = add(held, memory);
  regrowth_.note(memory.bytes, pool_.region.reserved_bytes(), is_short);
  if (std::uint64_t const least = policy().least_in(made.bytes, bytes); least != 0)
    pool_.region.admit_from(made, static_cast<std::uint32_t>(least / space::unit));
  if (wanted.at_least != 0) {
    made.rotates = true;
    rotated_ += made.bytes;
  }
  if (wanted.apart) {
    made.apart = true;
    apart_ += made.bytes;
  } else if (!wanted.by_itself || wanted.alignment > space::unit) {
    return space::none;
  }
  return pool_.region.take_from(made.first, 0, wanted.units, wanted.hidden, wanted.alignment);
}

std::uint64_t segment_backing::release_empty(pool_lock& held, std::uint64_t keep_idle,
                                             bool may_wait) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint64_t released = release_withheld(held, may_wait);
  while (pool_.region.idle_bytes() > keep_idle || keep_idle == 0) {
    space::segment* const s = pool_.region.empty_segment();
    if (s == nullptr) break;
    released += release_segment(held, s, may_wait);
  }
  return released;
}

bool segment_backing::may_go(space::segment const& s) const noexcept {
  suballocator_options const& o = pool_.options;
  return pool_.region.idle_bytes() - s.bytes >= o.kept_idle &&
         pool_.region.reserved_bytes() - s.bytes >= o.initial;
}

space::segment* segment_backing::find_due(due_memory const& due) noexcept {
  return pool_.region.empty_segment_if([&](space::segment const& s, space::epoch_id freed) {
    if (!may_go(s)) return false;
    bool const old = due.old_enough && static_cast<std::int32_t>(freed - *due.old_enough) <= 0;
    return s.unproven || old || GPUMEM_MUTANT(young_goes_back);
  });
}

void segment_backing::release_surplus(pool_lock& held, std::uint64_t until) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  auto const any = [this](space::segment const& s, space::epoch_id) { return may_go(s); };
  while (may_give_back()) {
    space::segment* const s = pool_.region.empty_segment_if(any);
    if (s == nullptr) break;
    release_segment(held, s);
    if (base::now_ns() >= until) break;  // after one at least, so that what was wanted comes to something
  }
}

bool segment_backing::release_due(pool_lock& held, due_memory const& due, going_back& age) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  auto& node = stats::local().nodes[pool_.node];
  while (space::segment* const s = find_due(due)) {
    std::uint64_t const now = base::now_ns();
    if (now >= due.until || !may_give_back()) return false;
    bool const unproven = s->unproven;
    if (!unproven) age.earned.left(s->bytes, now);
    std::uint64_t const bytes = release_segment(held, s);
    stats::add(unproven ? node.unearned : node.aged, bytes);
  }
  return true;
}

}  // namespace gpumem::resource
