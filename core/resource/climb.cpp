// The ladder of a suballocator, for a request that no magazine could serve: cheapest rung first, the search
// repeated after each (a search left out is how PyTorch runs out of memory with a fitting block in hand, its
// issue 189504). Driver calls are made without the mutex: other threads' requests go on meanwhile.
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include "core/base/bytes.hpp"
#include "core/base/clock.hpp"
#include "core/resource/suballocator.hpp"
#include "core/stats/state_page.hpp"

namespace gpumem::resource {

namespace {

constexpr std::uint64_t driver_page = 2ull << 20;  // the driver's own granularity
constexpr std::uint64_t largest_step = 256ull << 20;

constexpr std::uint64_t most_in_batch = 256ull << 20;  // and two blocks
constexpr std::uint32_t most_in_turn = 128;
// What may be reserved without waiting first, and of it what second blocks of large sizes may take.
constexpr std::uint64_t spare(suballocator_options const& of) noexcept {
  return std::min(of.plenty, of.maximum);
}
constexpr std::uint64_t most_beside(suballocator_options const& of) noexcept {
  return std::min(spare(of) / 32, std::uint64_t{2} << 30);
}
constexpr std::uint64_t price_of_growth_ns = 100'000;
constexpr std::uint64_t most_of_a_piece = 256ull << 20;

}  // namespace

space::handle suballocator::climb(climber& c) {
  // Many frees of this very size wait here: one event may settle them all, cheaper than new space.
  if (c.waiting && c.own->worth_an_event(home_.when.open(), c.units) && !is_hasty(c)) {
    if (auto h = settled_by_an_event(c); h != space::none) return h;
  }
  lock held(mutex_);
  auto& device = count_device();
  demand const& wish = c.wish;
  std::uint32_t const units = c.units;
  std::uint64_t const bytes = units * space::unit;
  reap();
  if (units >= smallest_exported_ && pages_ == nullptr && is_to_be_exported(c)) [[unlikely]] {
    if (auto h = take_apart(held, c); h != space::none) return h;
  }
  if (auto h = search(c, false); h != space::none) {
    stats::add(device.rung_carved, 1);
    return h;
  }
  // Blocks of this very size take turns, too few of them: an event each round. Where that is the rule, more
  // of them.
  if (c.waiting) {
    if (c.hasty || is_hasty(c)) {
      if (auto h = take_more_in_turn(held, c); h != space::none) return h;
    }
    held.unlock();
    if (auto h = settled_by_an_event(c); h != space::none) return h;
    held.lock();
  }
  // Frees may lie whole in magazines, where they cannot merge: in this thread's own, then in all.
  if (c.own != nullptr) {
    flush(c.own);
    if (auto h = search(c, false); h != space::none) {
      stats::add(device.rung_carved, 1);
      return h;
    }
  }
  // An idle block is large enough, but what the request would leave of a piece of it could not be given back:
  // its memory, in pieces that are the request's own.
  if (c.spoils) {
    try {
      auto h = grow(held, c);
      stats::add(device.rung_grown, 1);
      return h;
    } catch (driver::allocation_failed const&) {
      if (!held) held.lock();
    }
  }
  settle(held);
  if (auto h = search(c, false); h != space::none) {
    stats::add(device.rung_reaped, 1);
    return h;
  }
  if (auto h = watch(held, c); h != space::none) {
    stats::add(device.rung_reaped, 1);
    return h;
  }
  if (wish.slot != stream_order::no_slot && would_exceed(bytes)) {
    if (auto h = wait_on_device(wish, units); h != space::none) {
      stats::add(device.rung_device_wait, 1);
      return h;
    }
  }
  while (would_exceed(bytes) && region_.has_pending()) {
    space::stamp const oldest = region_.oldest_stamp();
    held.unlock();
    bool const waited = home_.when.wait(oldest);
    held.lock();
    if (!waited) break;
    reap();
    if (auto h = search(c, false); h != space::none) {
      stats::add(device.rung_waited, 1);
      return h;
    }
  }
  std::optional<driver::allocation_failed> refused;
  for (int round = 0;; ++round) {
    try {
      auto h = grow(held, c);
      stats::add(round == 0 ? device.rung_grown : device.rung_trimmed, 1);
      return h;
    } catch (driver::allocation_failed const& failed) {
      refused = failed;
      if (!held) held.lock();
    }
    if (round > 0 || refused->code() != CUDA_ERROR_OUT_OF_MEMORY) break;
    // Everything that was freed before this request, waited for; then the search that overlooks nothing.
    flush(nullptr);
    held.unlock();
    home_.when.wait(home_.when.open());
    held.lock();
    reap();
    if (auto h = search(c, true); h != space::none) {
      stats::add(device.rung_drained, 1);
      return h;
    }
    held.unlock();
    if (home_.relieve != nullptr) home_.relieve(home_.context);
    // That is about memory of the device.
    if (home_.relieve == nullptr || home_.kind == driver::memory_kind::host) give_back();
    held.lock();
    // What resources above gave back lies here.
    reap();
    if (auto h = search(c, true); h != space::none) {
      stats::add(device.rung_trimmed, 1);
      return h;
    }
  }
  stats::add(count().failed, 1);
  throw *refused;  // as whoever refused it says: the driver, a limit, or this pool's own maximum
}

space::handle suballocator::settled_by_an_event(climber& c) noexcept {
  home_.when.collect(*c.waiting);
  space::handle const h = from_magazine(c);
  if (h != space::none) stats::add(count_device().rung_reaped, 1);
  return h;
}

space::handle suballocator::search(climber& c, bool thorough) noexcept {
  demand const& wish = c.wish;
  c.spoils = false;
  if (wish.slot != stream_order::no_slot) {
    auto const own = static_cast<space::domain>(space::first_stream + wish.slot);
    auto h = region_.take(own, c.units, thorough, c.hidden, wish.alignment);
    if (h != space::none) return h;
  }
  bool const whole = !thorough && keeps_pieces_whole(c.units * space::unit);
  auto const h = whole ? region_.take_whole(c.units, static_cast<std::uint32_t>(pages_->page() / space::unit),
                                            c.hidden, wish.alignment, c.spoils)
                       : region_.take(space::done, c.units, thorough, c.hidden, wish.alignment);
  if (h != space::none || !runs_in_one_order(wish.slot)) return h;
  return region_.take(space::pending, c.units, thorough, c.hidden, wish.alignment);
}

void suballocator::reap() noexcept {
  region_.reap([&](space::stamp s) { return home_.when.is_done(s); });
}

// Into the index, where blocks merge: those that are done as done, the others by the way they were freed.
// `only` null: all magazines.
void suballocator::flush(magazine* only) noexcept {
  if (only == nullptr) reap();
  visit_magazines([&](magazine& m) { m.emptied = m.empty(blocks()); }, only);
  for (auto const& m : magazines_) {
    if (only == nullptr || m.get() == only)
      put_list(std::exchange(m->emptied, space::none), domain_of(m->stream));
  }
}

// An event costs 0.3 us to 0.6 us, as much as four pairs without one: so many blocks of a size take turns
// that it is shared by many. A batch of them is a small part of the device's memory; of large blocks two, so
// that every other round has one. None where idle memory is to be given back.
std::uint32_t suballocator::in_turn(std::uint64_t bytes) const noexcept {
  if (2 * bytes > options_.release_threshold) return 1;
  std::uint64_t const batch =
      std::min({most_in_batch + 2 * bytes, spare(options_) / 256, options_.release_threshold}) / bytes;
  if (batch >= 2) return static_cast<std::uint32_t>(std::min<std::uint64_t>(batch, most_in_turn));
  return bytes <= most_beside(options_) ? 2 : 1;
}

bool suballocator::is_hasty(climber& c) const noexcept {
  std::uint32_t const fresh = c.own->fresh(), there = c.own->in_turn(c.units);
  bool const is_batch = there != 0 && fresh >= there;
  c.hasty = !is_batch && fresh < in_turn(c.units * space::unit) && c.own->events.has_enough(fresh);
  return c.hasty;
}

// Out of what other sizes left idle, and of new memory where that is not enough: bounded in all, whatever the
// program does.
space::handle suballocator::take_more_in_turn(lock& held, climber& c) noexcept {
  std::uint64_t const bytes = c.units * space::unit;
  std::uint32_t const wanted = in_turn(bytes);
  settle(held);
  std::array<space::handle, most_in_turn> there{};
  std::uint32_t count = 0;
  while (count < wanted && (there[count] = search(c, false)) != space::none) ++count;
  for (std::uint32_t i = 0; i < count; ++i) region_.put(there[i], blocks()[there[i]].where);
  std::uint64_t const most = most_in_batch + 2 * bytes, left = most - std::min(most, in_turn_);
  std::uint64_t more = std::min((wanted - count) * bytes, left / bytes * bytes);
  // Two are worth most, so the second has room of its own.
  if (wanted >= 2 && count * bytes + more < 2 * bytes) more = (2 - count) * bytes;
  if (in_turn_ + more > most_in_batch + most_beside(options_) || would_exceed(more)) more = 0;
  // Where most of them are still in use by the GPU the usual rule is better than a small batch.
  auto const take_turns = [&](std::uint64_t all) {
    if (2 * all > wanted) c.own->take_turns(c.units, static_cast<std::uint32_t>(all));
  };
  take_turns(count);
  if (more > 0) {
    in_turn_ += more;
    try {
      auto h = grow(held, c, more);
      take_turns(count + more / bytes);
      stats::add(count_device().rung_grown, 1);
      return h;
    } catch (driver::allocation_failed const&) {
      if (!held) held.lock();
    }
  }
  auto h = search(c, false);
  if (h != space::none) stats::add(count_device().rung_reaped, 1);
  return h;
}

// Everything that was freed lies where it can merge, and is done where the driver says so.
void suballocator::settle(lock& held) noexcept {
  flush(nullptr);
  if (region_.has_pending()) {
    space::stamp const youngest = region_.youngest_stamp();
    held.unlock();
    home_.when.collect(youngest);
    held.lock();
  }
  reap();
}

// While memory is plentiful nothing waits for the GPU without bound: a kernel may itself be waiting for the
// host, and cudaMalloc natively does not wait for it.
bool suballocator::would_exceed(std::uint64_t bytes) const noexcept {
  return region_.reserved_bytes() + bytes > spare(options_);
}

// Looks for a while whether freed memory becomes done, before memory is taken that is kept for good. A stream
// that gets another's block runs after it: where streams take each other's blocks in turn, what they waited
// comes to the price of a growth soon, and each gets its own.
space::handle suballocator::watch(lock& held, climber& c) noexcept {
  std::uint64_t const begin = base::now_ns(), until = begin + patience_ns(c.wish.slot);
  space::handle h = space::none;
  std::uint64_t now = begin;
  while (h == space::none && now < until && region_.pending_bytes() >= c.units * space::unit) {
    held.unlock();
    home_.when.poll_now();
    held.lock();
    reap();
    h = search(c, false);
    now = base::now_ns();
  }
  watched_ns_ += now - begin;
  return h;
}

// Between two growths a pool waits for as long as a growth takes, in all: a request that finds only memory
// whose work still runs would otherwise wait each time, and the GPU with it. The more waits to be reused the
// further the host runs ahead of the GPU: then a wait costs little that the GPU is not behind already, and a
// growth would be for good.
std::uint64_t suballocator::patience_ns(stream_order::slot slot) const noexcept {
  std::uint64_t const left = price_of_growth_ns - std::min(watched_ns_, price_of_growth_ns);
  if (slot != stream_order::no_slot) return left;
  std::uint64_t const in_use = region_.reserved_bytes() - region_.idle_bytes();
  std::uint64_t const waits = region_.pending_bytes();
  if (waits > std::max<std::uint64_t>(256ull << 20, in_use / 4)) return 1'000'000;
  return waits > std::max<std::uint64_t>(32ull << 20, in_use / 8) ? price_of_growth_ns : left;
}

space::handle suballocator::wait_on_device(demand const& wish, std::uint32_t units) noexcept {
  auto const own = static_cast<space::domain>(space::first_stream + wish.slot);
  space::handle const h = wish.alignment > space::unit ? space::none : region_.take_unfinished(own, units);
  if (h == space::none) return space::none;
  space::domain const from = blocks()[h].where;
  // The mutex is held: cuStreamWaitEvent only queues (0.09 us measured).
  if (home_.when.wait_on_device(wish.stream, blocks()[h].freed)) return h;
  region_.put(h, from);
  return space::none;
}

std::uint64_t suballocator::growth_for(std::uint64_t bytes) const noexcept {
  std::uint64_t step = options_.growth;
  std::uint64_t const reserved = region_.reserved_bytes();
  // While a stream captures nothing that is freed serves again, so that growths come one after the other.
  unsigned const part = home_.when.capturing() ? 16 : 32;
  // What is a good part of the whole is not rounded up to more: there cannot be many such growths.
  if (step == 0 && bytes < reserved / 64 && !would_exceed(bytes))
    step = std::min(reserved / part, largest_step);
  step = std::max(step, bytes);
  if (options_.round_to > space::unit)
    return (step + options_.round_to - 1) / options_.round_to * options_.round_to;
  return (step + driver_page - 1) / driver_page * driver_page;
}

driver::allocation_failed suballocator::at_maximum(std::uint64_t asked) const noexcept {
  char text[160];
  std::snprintf(text, sizeof text, "%s %.16s, reserved %.16s, asked %.16s", options_.maximum_option,
                base::print_bytes(options_.maximum).view().data(),
                base::print_bytes(region_.reserved_bytes()).view().data(),
                base::print_bytes(asked).view().data());
  return refusal(driver::refused_by::pool_maximum, text);
}

// Adds a segment for the request; throws what upstream throws. The mutex is given up meanwhile, held again on
// return.
space::handle suballocator::grow(lock& held, climber& c, std::uint64_t at_least, bool padded) {
  watched_ns_ = 0;
  c.grew = true;
  if (pages_ != nullptr) return grow_in_pages(held, c, at_least, most_of_a_piece);
  // Segments of a driver begin at pages, which is aligned enough for nearly all; one made for one block has to hold it.
  std::uint64_t const bytes = padded || c.apart ? c.room() : c.units * space::unit;
  // Where memory is short, or to be spared: what is empty is of no use for this request.
  if (std::uint64_t const idle = region_.idle_bytes(); idle > 0 && would_exceed(bytes))
    release_empty(held, idle - std::min(idle, bytes));
  std::uint64_t const taken = region_.reserved_bytes() + growing_;
  if (taken > options_.maximum || bytes > options_.maximum - taken) {
    throw at_maximum(bytes);
  }
  std::uint64_t size =
      std::min(growth_for(std::max(bytes, at_least)), options_.maximum - taken) / space::unit * space::unit;
  if (c.apart) size = bytes;
  stats::add(count().upstream, 1);
  growing_ += size;
  extent memory{};
  for (;;) {
    held.unlock();
    try {
      memory = upstream_.reserve({.bytes = size, .flags = c.wish.flags, .alignment = c.wish.alignment});
      held.lock();
      break;
    } catch (driver::allocation_failed const&) {
      held.lock();
      growing_ -= size;
      if (size == bytes) throw;
      size = bytes;  // the request itself may still fit
      growing_ += size;
    }
  }
  growing_ -= size;
  // What came back after the context ended is of the one that its handle names by now.
  if (home_.when.life() != 0) {
    held.unlock();
    upstream_.release(memory, nullptr);
    held.lock();
    throw driver::allocation_failed(CUDA_ERROR_CONTEXT_IS_DESTROYED, name_, "its context has ended");
  }
  if (!region_.add_segment(memory.address, memory.bytes, memory.token)) {
    held.unlock();
    upstream_.release(memory, nullptr);
    held.lock();
    throw refusal(driver::refused_by::tables, "no host memory for its tables");
  }
  space::segment* const made = region_.segments().back();
  made->apart = c.apart;
  if (c.apart) apart_ += size;
  space::handle const h =
      c.apart ? region_.take_from(made->first, 0, c.units, c.hidden, c.wish.alignment) : search(c, true);
  if (h == space::none && !padded && c.wish.alignment > space::unit) return grow(held, c, at_least, true);
  if (h == space::none) throw refusal(driver::refused_by::tables, "no host memory for its tables");
  return h;
}

std::uint64_t suballocator::release_empty(lock& held, std::uint64_t keep_idle) noexcept {
  if (pages_ != nullptr) return release_pages(held, keep_idle);
  std::uint64_t released = release_left(held);
  while (region_.idle_bytes() > keep_idle || keep_idle == 0) {
    space::segment* const s = region_.empty_segment();
    if (s == nullptr) break;
    released += release_segment(held, s);
  }
  return released;
}

std::uint64_t suballocator::release_segment(lock& held, space::segment* s) noexcept {
  extent const memory{s->base, s->bytes, s->token};
  if (s->apart) apart_ -= s->bytes;
  region_.remove_segment(s);
  held.unlock();
  upstream_.release(memory, nullptr);
  held.lock();
  return memory.bytes;
}

std::uint64_t suballocator::give_back() noexcept {
  lock held(mutex_);
  flush(nullptr);
  held.unlock();
  home_.when.wait(home_.when.open());
  held.lock();
  reap();
  std::uint64_t const released = release_empty(held, 0);
  held.unlock();
  return released + upstream_.trim();
}

// As the source of a resource above: a block that the program never sees, so it is hidden from the block map.
extent suballocator::reserve(demand const& wish) {
  std::uint32_t const units = rounded_units(wish.bytes);
  demand const plain{.bytes = wish.bytes, .flags = wish.flags, .alignment = wish.alignment};
  climber c{.wish = plain, .units = units, .hidden = true, .waiting = {}};
  space::handle const h = climb_counted(c);
  return {blocks()[h].begin(), units * space::unit, h};
}

void suballocator::release(extent const& memory, CUstream) noexcept {
  auto const h = static_cast<space::handle>(memory.token);
  stats::add(count().bytes_out, memory.bytes);
  if (blocks()[h].is(space::exported)) return withhold(h, {});
  lock held(mutex_);
  region_.put(h, space::done);
}

}  // namespace gpumem::resource
