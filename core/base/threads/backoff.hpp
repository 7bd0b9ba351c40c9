// How a thread waits for another one that is about to be done: it looks again, lets others run, and then
// sleeps between its looks. A real-time thread that only yields on the processor of a holder of lower
// priority keeps it from running, and so from ever being done. Used by every wait of this library that is no
// sleep by itself, on any thread, in a forked child and in signal handlers: no state but its own, no point of
// cancellation, errno is kept.
#pragma once

#include "core/base/threads/processor_hints.hpp"

namespace gpumem::base {

// After so many looks of one wait: yields, or sleeps. Counts on up to where it sleeps.
void yield_or_sleep(unsigned& looks) noexcept;

// The first looks. Plain: of a lock that many threads take in turns (biased_lock), measured without pauses.
enum class first_looks : bool { plain, paused };

template <first_looks how = first_looks::paused>
class backoff {
 public:
  // Between two looks. The first ones cost nanoseconds: nearly all that is waited for is over by then.
  void wait() noexcept {
    if (looks_ >= at_once) [[unlikely]]
      return yield_or_sleep(looks_);
    ++looks_;
    if constexpr (how == first_looks::paused) pause();
  }

 private:
  static constexpr unsigned at_once = 64;

  unsigned looks_ = 0;
};

template <first_looks how, typename Done>
[[gnu::noinline, gnu::cold]] void look_again_until(Done done) noexcept {
  for (backoff<how> between; !done();) between.wait();
}
// Looks until `done` says so. Where it does at once, as nearly always, it costs no more than the question.
template <first_looks how = first_looks::paused, typename Done>
[[gnu::always_inline]] inline void wait_until(Done done) noexcept {
  if (!done()) [[unlikely]]
    look_again_until<how>(done);
}

}  // namespace gpumem::base
