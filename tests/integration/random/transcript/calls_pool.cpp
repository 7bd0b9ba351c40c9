// See session.hpp. Here: the program's own memory pools and the devices' default ones.
#include "tests/integration/random/transcript/session.hpp"

namespace transcript {

void session::create_pool() {
  if (pools_.size() > 3) return;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {some_device()}};
  own_pool made{fresh('m'), nullptr, properties.location.id};
  if (said(cuMemPoolCreate(&made.handle, &properties), "cuMemPoolCreate %s on %d", made.name.c_str(),
           made.device) == 0) {
    pools_.push_back(made);
  }
}

void session::destroy_pool() {
  if (pools_.empty()) return;
  std::size_t const pick = below(static_cast<unsigned>(pools_.size()));
  if (said(cuMemPoolDestroy(pools_[pick].handle), "cuMemPoolDestroy %s", pools_[pick].name.c_str()) != 0)
    return;
  pools_.erase(pools_.begin() + static_cast<std::ptrdiff_t>(pick));
}

void session::pool_attribute() {
  std::string name;
  CUmemoryPool const of = some_pool(name);
  unsigned long long value = 0;
  switch (below(asks_early() ? 6 : 4)) {
    case 4:
    case 5: {
      bool const highest = one_in(2) && !other_devices_.contains(name);
      auto const which = highest ? CU_MEMPOOL_ATTR_USED_MEM_HIGH : CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
      said(cuMemPoolGetAttribute(of, which, &value), "used, %u, of %s", static_cast<unsigned>(which),
           name.c_str());
      return say("  %llu", value);
    }
    case 0:
      value = below(3) * (1ull << 24);
      return void(said(cuMemPoolSetAttribute(of, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value),
                       "release threshold of %s to %llu", name.c_str(), value));
    case 1:
      said(cuMemPoolGetAttribute(of, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value), "release threshold of %s",
           name.c_str());
      return say("  %llu", value);
    case 2: {
      auto const which = static_cast<CUmemPool_attribute>(1 + below(3));
      said(cuMemPoolGetAttribute(of, which, &value), "attribute %u of %s", static_cast<unsigned>(which),
           name.c_str());
      return say("  %llu", value);
    }
    default:
      said(cuMemPoolSetAttribute(of, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value), "highest use of %s to 0",
           name.c_str());
  }
}

// What default pools say of their use is counted from the first question on.
void session::ask_early() {
  for (int device = 0; device < devices_; ++device) {
    CUmemoryPool pool = nullptr;
    unsigned long long value = 0;
    if (cuDeviceGetDefaultMemPool(&pool, device) != CUDA_SUCCESS) continue;
    said(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value), "used of the default pool %d",
         device);
  }
}

void session::trim_pool() {
  std::string name;
  CUmemoryPool const of = some_pool(name);
  said(cuMemPoolTrimTo(of, below(2) * (1u << 25)), "cuMemPoolTrimTo %s", name.c_str());
}

void session::set_pool() {
  std::string name;
  CUmemoryPool const of = some_pool(name);
  int const device = some_device();
  said(cuDeviceSetMemPool(device, of), "cuDeviceSetMemPool %d, %s", device, name.c_str());
}

void session::pool_access() {
  std::string name;
  CUmemoryPool const of = some_pool(name);
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {some_device()}},
                         one_in(3) ? CU_MEM_ACCESS_FLAGS_PROT_NONE : CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (said(cuMemPoolSetAccess(of, &access, 1), "cuMemPoolSetAccess %s", name.c_str()) == CUDA_SUCCESS)
    other_devices_.insert(name);
}

}  // namespace transcript
