// What a suballocator does for a program that runs ahead of the GPU with blocks of one size: it frees them
// before their work is done, and asks for the next. An event tells when some are; the more of them there are,
// the more share one, and the GPU has work left while the host waits for it. Requests that a magazine did not
// serve, any thread; without the mutex but where it is said.
#include <algorithm>
#include <utility>

#include "core/base/clock.hpp"
#include "core/resource/pools/suballocator.hpp"

namespace gpumem::resource {

// Kernels on larger blocks take so long that a few keep the GPU at work.
static constexpr std::uint64_t at_once_at_most = 1ull << 30;
// Blocks that keep it at work on any device, also where a 32nd of the memory is fewer (growth_policy).
static constexpr std::uint32_t fewest_ahead = 8;

space::handle suballocator::settled_by_an_event(slow_request& c) noexcept {
  // Done at once: the GPU is not behind, so that fewer looks do.
  bool const at_once = home_.epochs.collect(c.look.waiting);
  if (at_once) c.own->look_later();
  if (!std::exchange(c.counted, true)) c.behind = c.own->events.count_behind(c.units, at_once);
  return from_magazine(c);
}

// The program launches kernels faster than they end, and has so few blocks of this size that each few
// launches take an event: more of them, and an event for each half. Without the mutex, after the request was
// served.
void suballocator::get_ahead(slow_request const& c) noexcept {
  c.own->events.begin_again();
  std::uint64_t const bytes = c.units * space::unit;
  std::uint64_t const wanted = std::min(policy().most_ahead(bytes), at_once_at_most);
  std::uint64_t there = (c.own->waiting(blocks(), c.units).all + 1) * bytes;
  if (there + bytes > wanted || home_.epochs.capturing()) return;
  c.own->look_after(wanted / 2);
  lock held = enter();
  there += region_.idle_bytes();
  if (there + bytes > wanted || would_exceed(wanted - there)) return;
  slow_request more{.request = c.request, .units = c.units, .own = c.own, .look = {}};
  more.ahead = wanted - there - bytes;
  try {
    space::handle const h = grow(held, more);
    region_.put(h, space::done);
  } catch (driver::allocation_failed const&) {
  }
}

// The GPU is behind by more blocks of this size than keep it at work, and an event tells the older ones from
// the others: the wait for that costs it nothing, and what it settles serves without another look. Without
// the mutex.
space::handle suballocator::wait_for_older(slow_request& c) noexcept {
  waiting_blocks const wait = c.own->waiting(blocks(), c.units);
  std::uint64_t const bytes = c.units * space::unit;
  if (wait.all < fewest_ahead || policy().is_little_work(wait.all * bytes, bytes) ||
      wait.all - wait.oldest < wait.all / 4)
    return space::none;
  std::uint64_t const until = c.begun + growth_policy::price_of_growth_ns;
  do {
    home_.epochs.poll_now();
    if (space::handle const h = from_magazine(c); h != space::none) return h;
  } while (base::now_ns() < until);
  return space::none;
}

}  // namespace gpumem::resource
