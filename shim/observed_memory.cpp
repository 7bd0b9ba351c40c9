// The table of observed memory and the `observed` gauge; see observed_memory.hpp. No driver call while a lock
// is held.
#include "shim/observed_memory.hpp"

#include <new>

#include "core/driver/table.hpp"
#include "core/stats/state_page.hpp"

namespace gpumem::shim {
namespace {

alignas(observed_memory) unsigned char storage[sizeof(observed_memory)];

observed_memory* make() noexcept {
  return new (storage) observed_memory;
}

}  // namespace

observed_memory& observed_memory::instance() noexcept {
  static observed_memory& only = *make();
  return only;
}

void observed_memory::add(observed_kind kind, std::uint64_t key, std::uint64_t bytes) noexcept {
  CUcontext context = nullptr;
  CUdevice device = 0;
  if (driver::real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return;
  if (driver::real.cuCtxGetDevice(&device) != CUDA_SUCCESS) return;
  auto& part = of(key);
  try {
    std::lock_guard const held(part.lock);
    part.items[static_cast<std::size_t>(kind)].insert_or_assign(key, item{bytes, context, device});
  } catch (std::bad_alloc const&) {
    return;  // not counted, so nothing will be subtracted either
  }
  stats::gauge_add(stats::gauges(device).observed, bytes);
}

std::uint64_t observed_memory::remove(observed_kind kind, std::uint64_t key) noexcept {
  auto& part = of(key);
  item gone{};
  {
    std::lock_guard const held(part.lock);
    auto& items = part.items[static_cast<std::size_t>(kind)];
    auto const found = items.find(key);
    if (found == items.end()) return 0;
    gone = found->second;
    items.erase(found);
  }
  stats::gauge_subtract(stats::gauges(gone.device).observed, gone.bytes);
  return gone.bytes;
}

void observed_memory::forget(CUcontext context) noexcept {
  for (auto& part : shards_) {
    std::lock_guard const held(part.lock);
    for (auto& items : part.items) {
      std::erase_if(items, [context](auto const& entry) {
        if (entry.second.context != context) return false;
        stats::gauge_subtract(stats::gauges(entry.second.device).observed, entry.second.bytes);
        return true;
      });
    }
  }
}

void observed_memory::reset_in_child() noexcept {
  new (storage) observed_memory;
}

}  // namespace gpumem::shim
