// The table of observed memory; see observed_memory.hpp. No driver call while a lock is held.
#include "shim/observed_memory.hpp"

#include <new>

#include "core/route/limits.hpp"

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

bool observed_memory::add(observed_kind kind, std::uint64_t key, item const& held) noexcept {
  remove(kind, key);  // what the driver gives out anew was given back on a way that no hook saw
  auto& part = of(key);
  try {
    std::lock_guard const lock(part.lock);
    return part.items[static_cast<std::size_t>(kind)].try_emplace(key, held).second;
  } catch (std::bad_alloc const&) {
    return false;
  }
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
  route::let_go(gone.device, gone.bytes);
  return gone.bytes;
}

void observed_memory::forget(CUcontext context) noexcept {
  for (auto& part : shards_) {
    std::lock_guard const held(part.lock);
    for (auto& items : part.items) {
      std::erase_if(items, [context](auto const& entry) {
        if (entry.second.context != context) return false;
        route::let_go(entry.second.device, entry.second.bytes);
        return true;
      });
    }
  }
}

void observed_memory::reset_in_child() noexcept {
  new (storage) observed_memory;
}

}  // namespace gpumem::shim
