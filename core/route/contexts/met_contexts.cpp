// See met_contexts.hpp.
#include "core/route/contexts/met_contexts.hpp"

#include <algorithm>
#include <new>
#include <vector>

#include "core/base/threads/mutex.hpp"
#include "core/base/threads/undestroyed.hpp"

namespace gpumem::route {

namespace {

struct registry {
  base::mutex mutex;
  std::vector<CUcontext> contexts GPUMEM_GUARDED_BY(mutex);
  bool complete GPUMEM_GUARDED_BY(mutex) = true;  // false: there was no memory to note one
};
registry& all() noexcept {
  return base::undestroyed<registry>::get();
}

}  // namespace

void context_met(CUcontext context) noexcept {
  registry& here = all();
  base::lock_guard lock(here.mutex);
  auto& contexts = here.contexts;
  if (std::find(contexts.begin(), contexts.end(), context) != contexts.end()) return;
  try {
    contexts.push_back(context);
  } catch (std::bad_alloc const&) {
    here.complete = false;
  }
}

void context_left(CUcontext context) noexcept {
  registry& here = all();
  base::lock_guard lock(here.mutex);
  std::erase(here.contexts, context);
}

void forget_met_contexts() noexcept {
  base::undestroyed<registry>::renew();
}

bool each_met_context(bool (*visit)(CUcontext context)) noexcept {
  registry& here = all();
  std::vector<CUcontext> contexts;
  {
    base::lock_guard lock(here.mutex);
    if (!here.complete) return false;
    try {
      contexts = here.contexts;
    } catch (std::bad_alloc const&) {
      return false;
    }
  }
  bool all = true;
  for (CUcontext const context : contexts) all = visit(context) && all;
  return all;
}

}  // namespace gpumem::route
