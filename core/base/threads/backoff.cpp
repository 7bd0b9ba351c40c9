// See backoff.hpp.
#include "core/base/threads/backoff.hpp"

#include <sched.h>

#include "core/base/mutant.hpp"
#include "core/base/threads/sleep.hpp"

namespace gpumem::base {
namespace {

// Not tuned: a yield takes 0.3 us where nobody else wants the processor, so that what a thread with a
// processor of its own is about to do is over before anybody sleeps.
constexpr unsigned looks_without_sleep = 64 + 256;
constexpr std::uint64_t nap_ns = 50'000;

}  // namespace

[[gnu::cold]] void yield_or_sleep(unsigned& looks) noexcept {
  if (looks >= looks_without_sleep && !GPUMEM_MUTANT(waits_never_sleep)) return sleep_for(nap_ns);
  ++looks;
  ::sched_yield();
}

}  // namespace gpumem::base
