// One call at a time of those whose order says what holds from then on: which pool of a device is the current
// one, whether a pool is there, and open to other devices. The driver makes them one after the other; of two
// threads that each noted theirs after it the last note need not be that of the last call, and what is known
// here would be wrong from then on. Taken by the hooks of these calls once they may work, as a host function
// must wait for nobody; on any thread, with nothing else held.
#pragma once

#include <mutex>

#include "core/base/threads/undestroyed.hpp"

namespace gpumem::shim {

class one_by_one {
 public:
  one_by_one() noexcept : turn_(base::undestroyed<lock>::get()) {}
  one_by_one(one_by_one const&) = delete;
  // A thread of the parent may have been in one.
  static void reset_in_child() noexcept { base::undestroyed<lock>::renew(); }

 private:
  struct lock : std::mutex {};
  std::lock_guard<std::mutex> const turn_;
};

}  // namespace gpumem::shim
