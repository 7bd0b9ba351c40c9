// What a suballocator does while its threads wait for its mutex all the time (contention): blocks of large
// sizes, which fit few other requests, no longer lie in magazines or in the region but in bins that all
// threads share, each with a lock of its own. Any thread; the mutex is held where it is said.
#include "core/base/clock.hpp"
#include "core/base/contract.hpp"
#include "core/base/mutant.hpp"
#include "core/resource/pools/suballocator.hpp"

namespace gpumem::resource {

namespace {

// For a block whose work is nearly done: less than a growth takes.
constexpr std::uint64_t wait_ns = 20'000;
// After a wait for nothing there is none for so long.
constexpr std::uint64_t no_wait_ns = 1'000'000;

}  // namespace

// Where little memory comes before speed, blocks stay where they merge.
bool suballocator::has_plenty() const noexcept {
  return !would_exceed(region_.reserved_bytes());
}

bool suballocator::may_share() const noexcept {
  return !sharing_.load(std::memory_order_relaxed) && !options_.one_magazine && has_plenty() &&
         options_.round_to == space::unit;
}

void suballocator::start_to_share() noexcept {
  sharing_.store(true, std::memory_order_relaxed);
  caches_.keep_up_to(shared_bins::above);
  flush(nullptr, shared_bins::above + 1);
}

void suballocator::stop_sharing() noexcept {
  sharing_.store(false, std::memory_order_relaxed);
  caches_.keep_up_to(~0u);
  put_list(bins_.empty(blocks()), space::pending);
}

space::handle suballocator::from_bin(slow_request& c) noexcept {
  std::uint32_t const units = shared_bins::round_up(c.units);
  if (!exported_.is_below(c.units) || units * space::unit > options_.largest) return space::none;
  c.units = units;
  c.look = {};
  // One that this thread, or the stream, freed is still in this processor's cache, and its bin is in
  // another's.
  if (c.own != nullptr) {
    if (space::handle const h = from_magazine(c); h != space::none) {
      count_hit(stats::local(), c.request.slot, units * space::unit);
      return h;
    }
    c.look = {};
  }
  auto const done = [this](space::epoch_id s) {
    return home_.epochs.is_done(s) || GPUMEM_MUTANT(bin_not_done);
  };
  space::handle h = bins_.take(blocks(), units, done, c.look, c.request.alignment);
  if (h == space::none && c.look.waits) h = wait_for_bin(c);
  c.look = {.done = true};  // of a magazine the rungs learn nothing by it
  if (h == space::none) return space::none;
  count_hit(stats::local(), stream_order::no_slot, units * space::unit);
  return h;
}

// One event settles what all threads freed until now; whoever comes first asks for it, the others look.
space::handle suballocator::wait_for_bin(slow_request& c) noexcept {
  std::uint64_t const begun = base::now_ns();
  if (begun < no_wait_until_.load(std::memory_order_relaxed)) return space::none;
  auto const done = [this](space::epoch_id s) { return home_.epochs.is_done(s); };
  home_.epochs.collect(c.look.waiting);
  for (;;) {
    cache_look look;
    space::handle const h = bins_.take(blocks(), c.units, done, look, c.request.alignment);
    if (h != space::none || !look.waits) return h;
    if (base::now_ns() - begun > wait_ns) break;
    home_.epochs.collect(look.waiting);
  }
  no_wait_until_.store(begun + wait_ns + no_wait_ns, std::memory_order_relaxed);
  return space::none;
}

// Rather than to take out of the bins what other threads are about to ask for, as long as no more lies there,
// and idle, than is in use.
space::handle suballocator::grow_for_bins(lock& held, slow_request& c) {
  GPUMEM_EXPECTS(held.owns_lock());
  if (!sharing_.load(std::memory_order_relaxed) || !has_plenty()) return space::none;
  std::uint64_t const spare = region_.idle_bytes() + bins_.bytes();
  if (spare + c.units * space::unit > region_.reserved_bytes() / 2) return space::none;
  return grow_once(held, c);
}

}  // namespace gpumem::resource
