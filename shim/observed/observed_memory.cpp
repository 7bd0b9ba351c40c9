// The table of observed memory; see observed_memory.hpp. No driver call while a lock is held.
#include "shim/observed/observed_memory.hpp"

#include <new>

#include "core/base/threads/undestroyed.hpp"

namespace gpumem::shim {

observed_memory& observed_memory::instance() noexcept {
  return base::undestroyed<observed_memory>::get();
}

bool observed_memory::add(observed_kind kind, std::uint64_t key, item const& held) noexcept {
  // What the driver gives out anew was given back on a way that no hook saw.
  if (auto const gone = take(kind, key)) route::has_left(gone->held);
  auto& part = of(key);
  try {
    base::lock_guard const lock(part.lock);
    return part.items[static_cast<std::size_t>(kind)].try_emplace(key, held).second;
  } catch (std::bad_alloc const&) {
    return false;
  }
}

std::optional<observed_memory::item> observed_memory::take(observed_kind kind, std::uint64_t key) noexcept {
  auto& part = of(key);
  std::optional<item> gone;
  {
    base::lock_guard const held(part.lock);
    auto& items = part.items[static_cast<std::size_t>(kind)];
    auto const found = items.find(key);
    if (found == items.end()) return gone;
    gone = found->second;
    items.erase(found);
  }
  route::leaves(gone->held);
  return gone;
}

void observed_memory::forget(CUcontext context) noexcept {
  stats::memory_move const move;
  for (auto& part : shards_) {
    base::lock_guard const held(part.lock);
    for (auto& items : part.items) {
      std::erase_if(items, [context](auto const& entry) {
        if (entry.second.context != context) return false;
        route::leaves(entry.second.held);
        route::has_left(entry.second.held);
        return true;
      });
    }
  }
}

std::uint64_t departure::done() noexcept {
  if (!leaving_) return 0;
  std::uint64_t const bytes = leaving_->held.bytes;
  route::has_left(leaving_->held);
  leaving_.reset();
  return bytes;
}

// Nobody else can have the key: the driver refused to give it up.
departure::~departure() {
  if (!leaving_) return;
  if (observed_memory::instance().add(kind_, key_, *leaving_)) {
    route::stays(leaving_->held);
  } else {
    route::has_left(leaving_->held);
  }
}

void observed_memory::reset_in_child() noexcept {
  base::undestroyed<observed_memory>::renew();
}

}  // namespace gpumem::shim
