// See context_visits.hpp.
#include "core/stream_order/context_visits.hpp"

#include <algorithm>
#include <ctime>
#include <new>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/mutant.hpp"
#include "core/base/threads/mutex.hpp"
#include "core/base/threads/sure_allocator.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/base/threads/undestroyed.hpp"

namespace gpumem::stream_order::context_visits {

namespace {

struct visited {
  CUcontext context;
  int inside = 0;   // threads
  int endings = 0;  // calls
};

class registry {
 public:
  // Null: there is no memory for it.
  visited* find_or_add(CUcontext context) noexcept GPUMEM_REQUIRES(mutex) {
    if (visited* const found = find(context); found != nullptr) return found;
    try {
      return &all_.emplace_back(visited{.context = context});
    } catch (std::bad_alloc const&) {
      return nullptr;
    }
  }
  visited* find(CUcontext context) noexcept GPUMEM_REQUIRES(mutex) {
    auto const found =
        std::find_if(all_.begin(), all_.end(), [&](visited const& v) { return v.context == context; });
    return found != all_.end() ? &*found : nullptr;
  }
  void drop_if_idle(visited& one) noexcept GPUMEM_REQUIRES(mutex) {
    if (one.inside != 0 || one.endings != 0) return;
    one = all_.back();
    all_.pop_back();
  }

  base::mutex mutex;

 private:
  // Only those that somebody is inside of, or that may be ending: as many as threads at most.
  std::vector<visited, base::sure_allocator<visited>> all_ GPUMEM_GUARDED_BY(mutex);
};

registry& here() noexcept {
  return base::undestroyed<registry>::get();
}

constexpr std::uint64_t longest_wait_ns = 1'000'000'000;

bool is_anybody_inside(CUcontext context) noexcept {
  registry& r = here();
  base::lock_guard const lock(r.mutex);
  visited const* const found = r.find(context);
  return found != nullptr && found->inside != 0;
}

}  // namespace

bool enter(CUcontext context) noexcept {
  registry& r = here();
  base::lock_guard const lock(r.mutex);
  visited* const found = r.find_or_add(context);
  if (found == nullptr || (found->endings != 0 && !GPUMEM_MUTANT(ending_entered))) return false;
  ++found->inside;
  return true;
}

void leave(CUcontext context) noexcept {
  registry& r = here();
  base::lock_guard const lock(r.mutex);
  visited* const found = r.find(context);
  if (found == nullptr) return;
  --found->inside;
  r.drop_if_idle(*found);
}

void end_begins(CUcontext context) noexcept {
  base::uncancelled const held;  // or it would be ending for good
  {
    registry& r = here();
    base::lock_guard const lock(r.mutex);
    if (visited* const found = r.find_or_add(context); found != nullptr) ++found->endings;
  }
  std::uint64_t const until = base::now_ns() + longest_wait_ns;
  while (!GPUMEM_MUTANT(ending_entered) && is_anybody_inside(context) && base::now_ns() < until) {
    timespec const pause{0, 50'000};
    nanosleep(&pause, nullptr);
  }
}

void end_over(CUcontext context) noexcept {
  registry& r = here();
  base::lock_guard const lock(r.mutex);
  visited* const found = r.find(context);
  if (found == nullptr || found->endings == 0) return;
  --found->endings;
  r.drop_if_idle(*found);
}

bool may_be_ending(CUcontext context) noexcept {
  registry& r = here();
  base::lock_guard const lock(r.mutex);
  visited const* const found = r.find(context);
  return found != nullptr && found->endings != 0;
}

void forget() noexcept {
  base::undestroyed<registry>::renew();
}

}  // namespace gpumem::stream_order::context_visits
