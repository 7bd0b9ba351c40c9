// Hooks of what a memory pool says of itself, and of its trim. Called by the program on any thread. The
// driver answers first. For a pool in whose place chains serve (a device's default pool; by choice those that
// the program made) their blocks are added, and a trim also gives back what chains hold for nobody.
#include "core/route/default_pools.hpp"
#include "shim/hooks/dispatch.hpp"

using namespace gpumem;
using namespace gpumem::shim;

namespace {

// `ours`: with the pool, where chains serve in its place.
template <typename Real, typename Ours>
CUresult of_pool(hook which, CUmemoryPool pool, Real&& real, Ours&& ours) noexcept {
  return observe(which, 0, real, [&] {
    route::served_pool const found = route::find_served(pool);
    if (found.figures != nullptr) ours(found);
  });
}

}  // namespace

extern "C" {

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return of_pool(
      hook::cuMemPoolGetAttribute, pool,
      [&] { return GPUMEM_REAL(cuMemPoolGetAttribute)(pool, attribute, value); },
      [&](auto const& found) { route::tell_attribute(found, attribute, value); });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return of_pool(
      hook::cuMemPoolSetAttribute, pool,
      [&] { return GPUMEM_REAL(cuMemPoolSetAttribute)(pool, attribute, value); },
      [&](auto const& found) { route::attribute_set(found, attribute); });
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  return of_pool(
      hook::cuMemPoolTrimTo, pool, [&] { return GPUMEM_REAL(cuMemPoolTrimTo)(pool, keep); },
      [&](auto const& found) { route::trimmed(found, keep); });
}
}
