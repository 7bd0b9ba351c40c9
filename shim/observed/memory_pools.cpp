// See memory_pools.hpp. Without heap memory nothing is remembered: a pool is asked about again, or its
// device is unknown.
#include "shim/observed/memory_pools.hpp"

#include <new>

#include "core/base/threads/undestroyed.hpp"
#include "core/route/default_pools.hpp"

namespace gpumem::shim {
namespace {

int device_that_has(CUmemoryPool pool) noexcept {
  return route::device_of_default(pool).value_or(memory_pools::unknown);
}

}  // namespace

memory_pools& memory_pools::instance() noexcept {
  return base::undestroyed<memory_pools>::get();
}

void memory_pools::made(CUmemoryPool pool, CUmemPoolProps const& properties) noexcept try {
  base::lock_guard const held(lock_);
  bool const on_device = properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  devices_.insert_or_assign(pool, on_device ? properties.location.id : host);
  last_.store(0, std::memory_order_relaxed);
} catch (std::bad_alloc const&) {
}

int memory_pools::ends(CUmemoryPool pool) noexcept {
  base::lock_guard const held(lock_);
  auto const found = devices_.find(pool);
  int const device = found != devices_.end() ? found->second : unknown;
  if (found != devices_.end()) devices_.erase(found);
  last_.store(0, std::memory_order_relaxed);
  return device;
}

void memory_pools::survived(CUmemoryPool pool, int device) noexcept try {
  if (device == unknown) return;
  base::lock_guard const held(lock_);
  devices_.emplace(pool, device);
  last_.store(0, std::memory_order_relaxed);
} catch (std::bad_alloc const&) {
}

int memory_pools::device_of(CUmemoryPool pool) noexcept try {
  std::uint64_t const last = last_.load(std::memory_order_relaxed);
  if ((last & ((std::uint64_t{1} << address_bits) - 1)) == reinterpret_cast<std::uint64_t>(pool) && last != 0)
    return static_cast<int>(last >> address_bits) + unknown;
  base::lock_guard const held(lock_);
  if (auto const found = devices_.find(pool); found != devices_.end()) {
    last_.store(packed(pool, found->second), std::memory_order_relaxed);
    return found->second;
  }
  int const device = device_that_has(pool);
  if (device >= 0) devices_.emplace(pool, device);
  return device;
} catch (std::bad_alloc const&) {
  return device_that_has(pool);
}

void memory_pools::reset_in_child() noexcept {
  base::undestroyed<memory_pools>::renew();
}

}  // namespace gpumem::shim
