// The slow path of a suballocator, for a request that no magazine could serve: the rungs of rungs.def in
// their order, the search repeated on each (a search left out is how PyTorch runs out of memory with a
// fitting block in hand, its issue 189504). Any thread. Each rung is entered with the mutex held, and left so
// unless it serves; it gives the mutex up around calls of the driver.
#include <algorithm>
#include <array>
#include <optional>

#include "core/base/clock.hpp"
#include "core/base/contract.hpp"
#include "core/base/mutant.hpp"
#include "core/base/threads/sleep.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/resource/pools/suballocator.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::resource {

// What a few parts may have idle is not worth a look.
static constexpr std::uint64_t from_parts_beyond = 64ull << 20;
// Units, 256 KiB: blocks up to here hold few bytes, and serve most requests of mixed sizes.
static constexpr std::uint32_t small = 512;

// Where memory is spared: for others' frees, before a pool that many share has more than ever, and between
// two looks.
static constexpr std::uint64_t patience_at_most_ns = 2'000'000;
static constexpr std::uint64_t look_again_ns = 50'000;

// Magazines, or parts of an arena, from which on a pool is one that many share.
static constexpr std::size_t many_sharers = 8;

space::handle suballocator::carve(lock&, slow_request& c) {
  return search(c, false);
}

// Blocks of this very size take turns, too few of them: an event each round. Where that is the rule, more of
// them.
space::handle suballocator::rotate(lock& held, slow_request& c) {
  GPUMEM_EXPECTS(held.owns_lock());
  if (!c.look.waits) return space::none;
  c.begun = base::now_ns();
  if (c.churns || count_churn(c)) {
    if (auto h = take_more_in_rotation(held, c); h != space::none) return h;
  }
  held.unlock();
  space::handle h = settled_by_an_event(c);
  if (h == space::none) h = wait_for_older(c);
  if (h == space::none) held.lock();
  return h;
}

// Frees may lie whole in magazines, where they cannot merge: in this thread's own first, as the cheapest.
// Those of a class stay: they serve most requests of mixed sizes and hold few bytes, so that an event for the
// others comes first. Not in an arena's parts, which are many: there they would hold much.
space::handle suballocator::carve_from_own_magazine(lock&, slow_request& c) {
  if (c.own == nullptr) return space::none;
  bool const keeps_classes = !options_.one_magazine && !waits_.is_high();
  flush(c.own, std::min(c.units, keeps_classes ? size_classes::largest + 1 : small));
  if (auto h = search(c, false); h != space::none || keeps_small_blocks()) return h;
  flush(c.own);
  return search(c, false);
}

// What lies idle already, by one event. The magazines of other threads stay as they are: with many threads,
// to empty all of them is what a request costs most.
space::handle suballocator::collect_idle(lock& held, slow_request& c) {
  GPUMEM_EXPECTS(held.owns_lock());
  if (region_.pending_bytes() < c.units * space::unit) return space::none;
  space::epoch_id const youngest = region_.youngest_epoch();
  held.unlock();
  home_.epochs.collect(youngest);
  held.lock();
  if (GPUMEM_MUTANT(idle_is_done)) region_.reap([](space::epoch_id) { return true; });
  reap();
  space::handle const h = search(c, false);
  if (h != space::none && c.begun != 0) watched_ns_ += base::now_ns() - c.begun;
  return h;
}

// An idle block is large enough, but what the request would leave of a piece of it could not be given back:
// its memory, in pieces that are the request's own.
space::handle suballocator::grow_rather_than_split(lock& held, slow_request& c) {
  GPUMEM_EXPECTS(held.owns_lock());
  if (!c.would_split_piece) return space::none;
  return grow_once(held, c);
}

// Small blocks stay in their magazines while the others are enough: emptied, the magazines of all are filled
// again one request after the other, each under the mutex.
space::handle suballocator::collect(lock& held, slow_request& c) {
  GPUMEM_EXPECTS(held.owns_lock());
  if (keeps_small_blocks()) {
    std::uint64_t const stay = settle(held, small);
    if (auto h = search(c, false); h != space::none || stay == 0) return h;
  }
  settle(held);
  return search(c, false);
}

std::uint64_t suballocator::patience_ns(slow_request const& c) const noexcept {
  return policy().patience_ns(c.request.slot != stream_order::no_slot, watched_ns_, in_use(),
                              region_.pending_bytes(), waiting_size(c));
}

// For tests: as if programs ran far ahead from the start.
static bool runs_ahead_at_once() noexcept {
  return GPUMEM_MUTANT(always_paces) || GPUMEM_MUTANT(pace_is_done) || GPUMEM_MUTANT(always_gives_ahead) ||
         GPUMEM_MUTANT(ahead_is_done);
}

// The request, or the next one of a pool at its bound, would wait for what was freed far ahead of the GPU;
// natively those frees wait. Of blocks of one size as many are ahead as keep the GPU at work (ahead.cpp).
void suballocator::keep_pace(slow_request const& c) noexcept {
  if (c.request.slot != stream_order::no_slot || home_.kind != driver::memory_kind::device) return;
  if (waiting_size(c) != 0) return;
  std::uint64_t const reserved = region_.reserved_bytes();
  home_.epochs.pace.begin(runs_ahead_at_once() ? 2ull << 20 : policy().most_at_pace(in_use(), reserved),
                          policy().is_near_bound(reserved));
  free_duties.fetch_or(paces, std::memory_order_relaxed);
}

// Looks for a while whether freed memory becomes done, before the pool grows for good. If streams keep
// swapping blocks, their waits soon cost one growth; then each gets its own.
space::handle suballocator::watch(lock& held, slow_request& c) {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint64_t const begin = base::now_ns(), until = begin + patience_ns(c);
  std::uint64_t const pending = region_.pending_bytes(), bytes = c.units * space::unit;
  if (policy().is_far_ahead(in_use(), pending, waiting_size(c)) || runs_ahead_at_once()) keep_pace(c);
  space::handle h = space::none;
  std::uint64_t now = begin;
  while (h == space::none && now < until && region_.pending_bytes() >= bytes) {
    held.unlock();
    home_.epochs.poll_now();
    held.lock();
    reap();
    h = search(c, false);
    now = base::now_ns();
  }
  watched_ns_ += now - (c.begun != 0 ? c.begun : begin);
  if (c.begun != 0 && now != begin) c.own->look_after(pending / 2);
  if (h == space::none && c.begun != 0 && pending >= bytes) c.ahead = policy().more_ahead(pending, bytes);
  return h;
}

// Segments that bins keep lie between the blocks of the pool below them, and keep it from merging what it has
// idle: a growth costs more than they do. Not where all of it would not be enough.
space::handle suballocator::take_from_borrowers(lock& held, slow_request& c) {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint64_t idle = region_.idle_bytes(), given = 0;
  held.unlock();
  for (suballocator* const above : borrowers_) idle += above->idle();
  if (idle >= c.units * space::unit)
    for (suballocator* const above : borrowers_) given += above->give_back_idle();
  held.lock();
  return given != 0 ? search(c, false) : space::none;
}

// What the parts of an arena have idle serves the part that asks before the whole of them grows: some parts
// at a time, as what they give has to lie together, until each was asked.
space::handle suballocator::take_from_parts(lock& held, slow_request& c) {
  GPUMEM_EXPECTS(held.owns_lock());
  if (region_.reserved_bytes() < from_parts_beyond) return space::none;
  space::handle h = !borrowers_.empty() ? take_from_borrowers(held, c) : space::none;
  if (spare_ == nullptr) return h;
  for (std::size_t asked = 0; h == space::none;) {
    bool const is_short = would_exceed(c.units * space::unit);
    held.unlock();
    std::uint64_t const given = spare_(*spare_of_, c.units * space::unit, is_short, asked);
    held.lock();
    if (given == 0) break;
    h = search(c, false);
  }
  return h;
}

space::handle suballocator::wait_on_device(lock&, slow_request& c) {
  allocation_request const& request = c.request;
  if (request.slot == stream_order::no_slot || !would_exceed(c.units * space::unit)) return space::none;
  auto const own = static_cast<space::free_list_id>(space::first_stream + request.slot);
  space::handle const h =
      request.alignment > space::unit ? space::none : region_.take_unfinished(own, c.units);
  if (h == space::none) return space::none;
  space::free_list_id const from = blocks()[h].where;
  // The mutex is held: cuStreamWaitEvent only queues (0.09 us measured).
  CUstream const freed_on = stream_of(from);
  bool const will_wait = freed_on != nullptr
                             ? home_.epochs.wait_on_device(request.stream, blocks()[h].freed, freed_on)
                             : home_.epochs.wait_on_device(request.stream, blocks()[h].freed);
  if (will_wait) return h;
  region_.put(h, from);
  return space::none;
}

space::handle suballocator::wait_for_oldest(lock& held, slow_request& c) {
  GPUMEM_EXPECTS(held.owns_lock());
  if (would_exceed(c.units * space::unit) && region_.has_pending()) keep_pace(c);
  while (would_exceed(c.units * space::unit) && region_.has_pending()) {
    space::epoch_id const oldest = region_.oldest_epoch();
    held.unlock();
    bool const waited = home_.epochs.wait(oldest);
    held.lock();
    if (!waited) break;
    reap();
    if (auto h = search(c, false); h != space::none) return h;
  }
  return space::none;
}

space::handle suballocator::grow_once(lock& held, slow_request& c) {
  GPUMEM_EXPECTS(held.owns_lock());
  try {
    return grow(held, c);
  } catch (driver::allocation_failed const& failed) {
    backing_->ahead.drop_room();
    *c.refused = failed;
    return space::none;
  }
}

// Where memory is spared what is idle goes before more comes. Of growths side by side all would come before
// the first went, and what others freed while one waited would serve nobody.
space::handle suballocator::take_turn_to_grow(lock& held, slow_request& c,
                                              std::unique_lock<base::mutex>& turn) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint64_t const bytes = c.units * space::unit;
  if (!(page_ != 0 ? would_exceed(bytes) : policy().spares(region_.reserved_bytes(), bytes)))
    return space::none;
  held.unlock();
  turn.lock();
  held.lock();
  settle(held);
  space::handle const h = search(c, false);
  // Not a stream's request over pages: natively it takes more memory, so that the wait costs more than it
  // saves.
  bool const may_wait = page_ == 0 || c.request.slot == stream_order::no_slot;
  if (h != space::none || !may_wait || !is_of_many() || region_.idle_bytes() < bytes) return h;
  // Segments go back only once the GPU is done (segment_backing), which pages need not wait for; by then
  // others have freed more. Rather than to have more than ever it waits a little longer.
  base::uncancelled const whole;
  for (std::uint64_t const until = base::now_ns() + patience_at_most_ns;;) {
    held.unlock();
    bool const done = (page_ != 0 || home_.epochs.wait_for_all()) && !home_.epochs.capturing();
    held.lock();
    settle(held);
    if (auto const came = search(c, false); came != space::none) return came;
    bool const most = mixing_.would_be_most(bytes, region_.reserved_bytes(), would_go_back(bytes));
    if (!done || !most || base::now_ns() >= until) return space::none;
    held.unlock();
    base::sleep_for(look_again_ns);
    held.lock();
  }
}

space::handle suballocator::grow(lock& held, slow_request& c, std::uint64_t at_least) {
  GPUMEM_EXPECTS(held.owns_lock());
  std::unique_lock turn(turn_to_grow_, std::defer_lock);
  if (auto h = take_turn_to_grow(held, c, turn); h != space::none) return h;
  // What it would give back in vain the next one would take again: the bytes are what that costs.
  if (would_exceed(c.units * space::unit) && driver_would_refuse(held, c))
    throw refuse_.no_memory(c.units * space::unit);
  watched_ns_ = 0;
  c.grew = true;
  // Of memory that most of the rest was needed for: an event of later would be of later work too.
  std::uint64_t const bytes = c.units * space::unit;
  if (would_exceed(bytes + (region_.reserved_bytes() + bytes) / 2))
    free_duties.fetch_or(settles, std::memory_order_relaxed);
  if (would_exceed(bytes)) {
    std::uint64_t const back = would_go_back(bytes);
    // Over pages what lies between blocks can go back by itself: there is nothing to keep apart.
    mixing_.note_growth(bytes, region_.reserved_bytes(), back,
                        page_ != 0 ? 0 : region_.idle_bytes() - region_.pending_bytes() - back);
  }
  std::uint64_t const idle = region_.idle_bytes() - region_.pending_bytes();
  std::uint64_t const of_parts =
      spare_ != nullptr && page_ == 0 ? policy().step_of_superblocks(region_.reserved_bytes()) : 0;
  growth_request wanted{.units = c.units,
                        .alignment = c.request.alignment,
                        .flags = c.request.flags,
                        .at_least = at_least,
                        .ahead = std::max(c.ahead, of_parts),
                        .hidden = c.hidden,
                        .apart = c.apart,
                        .by_itself = is_scarce(c.units * space::unit),
                        .for_whole_piece = c.would_split_piece,
                        .of_many = is_of_many(),
                        .in_order = c.request.slot != stream_order::no_slot};
  for (;;) {
    space::handle h = backing_->grow(held, wanted);
    if (h == space::none) h = search(c, true);
    if (h != space::none) {
      note_scarcity();
      if (wanted.of_many) note_surplus(idle);
      if (policy().is_near_bound(region_.reserved_bytes())) keep_pace(c);
      return h;
    }
    if (wanted.anywhere || c.request.alignment <= space::unit) throw refuse_.no_tables();
    wanted.anywhere = true;  // the memory was large enough, but does not begin where the block can
  }
}

// Everything that was freed before this request, waited for; then the search that overlooks nothing. Where
// memory is scarce that one comes last, as what it cuts serves no large block any more.
space::handle suballocator::drain(lock& held, slow_request& c) {
  GPUMEM_EXPECTS(held.owns_lock());
  flush(nullptr);
  if (region_.has_pending()) {
    space::epoch_id const youngest = region_.youngest_epoch();
    held.unlock();
    home_.epochs.wait(youngest);
    held.lock();
    reap();
  }
  return search(c, !is_scarce(c.units * space::unit));
}

// Of the whole device; that is about memory of the device.
std::uint64_t suballocator::relieve(lock& held, give_back_scope scope) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  held.unlock();
  std::uint64_t given = home_.relieve != nullptr ? home_.relieve(home_.context(), scope) : 0;
  if (home_.relieve == nullptr || home_.kind == driver::memory_kind::host) given += give_back(scope);
  held.lock();
  reap();
  return given;
}

// What resources above gave back lies here. What is done goes first: it waits for no work.
space::handle suballocator::trim(lock& held, slow_request& c) {
  GPUMEM_EXPECTS(held.owns_lock());
  if (was_relieved(c)) return space::none;
  if ((c.hopeless = driver_would_refuse(held, c))) return space::none;
  if (relieve(held, give_back_scope::done) != 0) {
    if (auto h = search(c, false); h != space::none) return h;
    if (auto h = grow_once(held, c); h != space::none) return h;
  }
  relieve(held, give_back_scope::all);
  return search(c, !is_scarce(c.units * space::unit));
}

space::handle suballocator::grow_after_trim(lock& held, slow_request& c) {
  GPUMEM_EXPECTS(held.owns_lock());
  space::handle const h = was_relieved(c) || c.hopeless ? space::none : grow_once(held, c);
  return h != space::none || !is_scarce(c.units * space::unit) ? h : search(c, true);
}

std::uint64_t suballocator::would_go_back(std::uint64_t bytes) noexcept {
  return page_ != 0 ? std::min(bytes, region_.whole_pages(page_, bytes)) : region_.empty_bytes();
}

bool suballocator::is_of_many() const noexcept {
  if (parts() >= many_sharers) return true;
  if (caches_.made() < many_sharers) [[likely]]
    return false;
  stream_order::slot const slots = home_.streams != nullptr ? home_.streams->end() : stream_order::most_slots;
  return caches_.count(slots) >= many_sharers;
}

void suballocator::reap() noexcept {
  region_.reap([&](space::epoch_id s) { return home_.epochs.is_done(s); });
}

// Into the index, where blocks merge: those that are done as done, the others by the way they were freed.
// `only` null: all magazines.
std::uint64_t suballocator::flush(magazine* only, std::uint32_t units) noexcept {
  if (only == nullptr) reap();
  if (only == nullptr) put_list(bins_.empty(blocks()), space::pending);
  return caches_.empty(
      blocks(), only, [&](stream_order::slot s, space::handle freed) { put_list(freed, free_list_of(s)); },
      units);
}

bool suballocator::count_churn(slow_request& c) const noexcept {
  std::uint32_t const fresh = c.own->fresh(), there = c.own->rotation_size(c.units);
  bool const is_batch = there != 0 && fresh >= there;
  c.churns = !is_batch && !c.own->waits_for_gpu() && fresh < policy().rotation_size(c.units * space::unit) &&
             c.own->events.count_and_check(fresh);
  return c.churns;
}

// Out of what other sizes left idle, and of new memory where that is not enough: bounded in all, whatever the
// program does.
space::handle suballocator::take_more_in_rotation(lock& held, slow_request& c) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint64_t const bytes = c.units * space::unit;
  std::uint32_t const wanted = policy().rotation_size(bytes);
  settle(held);
  std::array<space::handle, growth_policy::most_in_rotation> there{};
  std::uint32_t count = 0;
  while (count < wanted && (there[count] = search(c, false)) != space::none) ++count;
  for (std::uint32_t i = 0; i < count; ++i) region_.put(there[i], blocks()[there[i]].where);
  std::uint64_t const more = policy().more_to_rotate(bytes, wanted, count, backing_->rotated() + rotating_,
                                                     region_.reserved_bytes());
  // Where most of them are still in use by the GPU the usual rule is better than a small batch.
  auto const take_turns = [&](std::uint64_t all) {
    if (2 * all > wanted) c.own->take_turns(c.units, static_cast<std::uint32_t>(all));
  };
  take_turns(count);
  if (more == 0) return search(c, false);
  space::handle grown = space::none;
  rotating_ += more;  // the mutex is given up meanwhile
  try {
    grown = grow(held, c, more);
  } catch (driver::allocation_failed const&) {
  }
  rotating_ -= more;
  if (grown == space::none) return search(c, false);
  take_turns(count + more / bytes);
  c.grown_for_turns = true;
  return grown;
}

// Everything that was freed lies where it can merge, and is done where the driver says so.
std::uint64_t suballocator::settle(lock& held, std::uint32_t units) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint64_t const stay = flush(nullptr, units);
  if (region_.has_pending()) {
    space::epoch_id const youngest = region_.youngest_epoch();
    held.unlock();
    home_.epochs.collect(youngest);
    held.lock();
  }
  reap();
  bool const is_short = would_exceed(region_.pending_bytes()) || GPUMEM_MUTANT(always_asks_streams) ||
                        GPUMEM_MUTANT(idle_stream_is_done) || GPUMEM_MUTANT(legacy_stream_not_asked);
  if (region_.has_pending() && is_short) settle_idle_streams();
  return stay;
}

CUstream suballocator::stream_of(space::free_list_id list) const noexcept {
  if (home_.streams == nullptr || list < space::first_stream) return nullptr;
  return home_.streams->handle_of(static_cast<stream_order::slot>(list - space::first_stream));
}

// An epoch's event is of all streams: of one whose work does not end nobody would know that others' did. The
// mutex keeps a stream from being destroyed meanwhile (stream_gone).
void suballocator::settle_idle_streams() noexcept {
  region_.each_stream([this](space::free_list_id list) {
    CUstream const stream = stream_of(list);
    bool const done =
        (stream != nullptr && home_.epochs.is_idle(stream)) || GPUMEM_MUTANT(idle_stream_is_done);
    if (done) region_.orphan(list, space::done);
  });
}

space::handle suballocator::try_rungs(slow_request& c) {
  note_time();
  // Many frees of this very size wait here: one event may settle them all, cheaper than new space.
  if (c.look.waits && c.own->worth_an_event(home_.epochs.open(), c.units) && !count_churn(c)) {
    if (auto h = settled_by_an_event(c); h != space::none) {
      stats::add(count_device().rung_reaped, 1);
      return h;
    }
  }
  lock held = enter();
  reap();
  if ((waits_.is_high() || GPUMEM_MUTANT(always_shares) || GPUMEM_MUTANT(bin_not_done)) && may_share())
      [[unlikely]]
    start_to_share();
  if (!exported_.is_below(c.units) && is_to_be_exported(c)) [[unlikely]] {
    if (auto h = take_apart(held, c); h != space::none) return h;
  }
  space::handle h = carve(held, c);
  if (h != space::none)
    stats::add(count_device().rung_carved, 1);
  else
    h = try_higher_rungs(held, c);
  if (c.hidden) c.life = life_;
  return h;
}

// Apart, because the first rung needs none of its stack and registers; written out rather than looped over,
// because calls through pointers cost a request a hundred instructions.
[[gnu::noinline]] space::handle suballocator::try_higher_rungs(lock& held, slow_request& c) {
  GPUMEM_EXPECTS(held.owns_lock());
  auto& device = count_device();
  std::optional<driver::allocation_failed> refused;
  struct lent {  // c lives longer
    slow_request& to;
    ~lent() { to.refused = nullptr; }
  } const lent{c};
  c.refused = &refused;
#define GPUMEM_RUNG(step, counter)                                         \
  if (auto h = step(held, c); h != space::none) {                          \
    stats::add(c.grown_for_turns ? device.rung_grown : device.counter, 1); \
    return h;                                                              \
  }
#define GPUMEM_FIRST_RUNG(step, counter)
#define GPUMEM_LAST_RUNG(step, counter) \
  if (refused->code() == CUDA_ERROR_OUT_OF_MEMORY) GPUMEM_RUNG(step, counter)
#include "core/resource/pools/rungs.def"
#undef GPUMEM_FIRST_RUNG
#undef GPUMEM_LAST_RUNG
#undef GPUMEM_RUNG
  scarcity_.note_refusal();
  stats::add(count().failed, 1);
  throw *refused;  // as whoever refused it says: the driver, a limit, or this pool's own maximum
}

}  // namespace gpumem::resource
