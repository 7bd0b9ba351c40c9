// See context_visits.hpp.
#include "core/stream_order/context_visits.hpp"

#include <algorithm>
#include <new>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/mutant.hpp"
#include "core/base/threads/mutex.hpp"
#include "core/base/threads/sleep.hpp"
#include "core/base/threads/sure_allocator.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/base/threads/undestroyed.hpp"

namespace gpumem::stream_order::context_visits {

namespace {

struct visited {
  CUcontext context;
  int inside = 0;   // threads
  int waiting = 0;  // threads, for the calls that may end it
  int endings = 0;  // these calls
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
    if (one.inside != 0 || one.waiting != 0 || one.endings != 0) return;
    one = all_.back();
    all_.pop_back();
  }

  base::mutex mutex;

 private:
  // Only those that somebody is inside of or waits for, or that may be ending: as many as threads at most.
  std::vector<visited, base::sure_allocator<visited>> all_ GPUMEM_GUARDED_BY(mutex);
};

registry& here() noexcept {
  return base::undestroyed<registry>::get();
}

// Tries again for so many nanoseconds.
template <typename Attempt>
bool soon(Attempt attempt, std::uint64_t limit = 1'000'000'000) noexcept {
  std::uint64_t const until = base::now_ns() + limit;
  while (!attempt()) {
    if (base::now_ns() > until) return false;
    base::sleep_for(50'000);
  }
  return true;
}

bool enter_now(CUcontext context) noexcept {
  registry& r = here();
  base::lock_guard const lock(r.mutex);
  visited* const found = r.find_or_add(context);
  if (found == nullptr || (found->endings != 0 && !GPUMEM_MUTANT(ending_entered))) return false;
  ++found->inside;
  return true;
}

// Adds to one of the counts; false: there is no memory for it.
bool count(CUcontext context, int visited::*what, int more) noexcept {
  registry& r = here();
  base::lock_guard const lock(r.mutex);
  visited* const found = r.find_or_add(context);
  if (found == nullptr) return false;
  found->*what = std::max(0, found->*what + more);
  r.drop_if_idle(*found);
  return true;
}

int count_of(CUcontext context, int visited::*what) noexcept {
  registry& r = here();
  base::lock_guard const lock(r.mutex);
  visited const* const found = r.find(context);
  return found != nullptr ? found->*what : 0;
}

}  // namespace

bool enter(CUcontext context, if_ending then) noexcept {
  if (enter_now(context)) return true;
  base::uncancelled const held;  // or it would be waited for as long as the process lives
  if (then == if_ending::refuse || !count(context, &visited::waiting, 1)) return false;
  bool const entered = soon([context] { return enter_now(context); });
  count(context, &visited::waiting, -1);
  return entered;
}

void leave(CUcontext context) noexcept {
  count(context, &visited::inside, -1);
}

// Who waits comes first, or a thread that retains and releases a context all the time would keep it out.
void end_begins(CUcontext context, patience limit) noexcept {
  base::uncancelled const held;  // or it would be ending for good
  soon([context] { return count_of(context, &visited::waiting) == 0; });
  count(context, &visited::endings, 1);
  soon([context] { return count_of(context, &visited::inside) == 0 || GPUMEM_MUTANT(ending_entered); },
       static_cast<std::uint64_t>(limit));
}

void end_over(CUcontext context) noexcept {
  count(context, &visited::endings, -1);
}

void forget() noexcept {
  base::undestroyed<registry>::renew();
}

}  // namespace gpumem::stream_order::context_visits
