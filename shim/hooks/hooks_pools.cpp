// Hooks of what a memory pool says of itself, and of its trim. Called by the program on any thread. The
// driver answers first. For a device's default pool, in whose place chains serve, their blocks are added,
// and a trim also gives back what chains hold for nobody. Pools that the program made are the driver's
// alone.
#include "core/route/default_pools.hpp"
#include "shim/hooks/dispatch.hpp"

using namespace gpumem;
using namespace gpumem::shim;

namespace {

// `ours`: with the device whose default pool it is.
template <typename Real, typename Ours>
CUresult of_pool(hook which, CUmemoryPool pool, Real&& real, Ours&& ours) noexcept {
  return observe(which, 0, real, [&] {
    int const device = route::served_pool(pool);
    if (device >= 0) ours(device);
  });
}

}  // namespace

extern "C" {

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return of_pool(
      hook::cuMemPoolGetAttribute, pool,
      [&] { return GPUMEM_REAL(cuMemPoolGetAttribute)(pool, attribute, value); },
      [&](int device) { route::tell_attribute(device, pool, attribute, value); });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return of_pool(
      hook::cuMemPoolSetAttribute, pool,
      [&] { return GPUMEM_REAL(cuMemPoolSetAttribute)(pool, attribute, value); },
      [&](int device) { route::attribute_set(device, attribute); });
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  return of_pool(
      hook::cuMemPoolTrimTo, pool, [&] { return GPUMEM_REAL(cuMemPoolTrimTo)(pool, keep); },
      [&](int device) { route::trimmed(device, keep); });
}
}
