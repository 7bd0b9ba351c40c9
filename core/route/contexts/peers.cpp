// See peers.hpp.
#include "core/route/contexts/peers.hpp"

#include <new>

namespace gpumem::route {

bool peers::update() noexcept {
  std::array<std::uint64_t, max_devices> now{};
  for (link const& each : links_) {
    now[static_cast<std::size_t>(each.owner_device)] |= std::uint64_t{1} << each.user_device;
  }
  bool changed = false;
  for (std::size_t device = 0; device < max_devices; ++device) {
    changed |= masks_[device].exchange(now[device], std::memory_order_acq_rel) != now[device];
  }
  return changed;
}

bool peers::enable(link const& made) noexcept try {
  if (!known(made.user_device) || !known(made.owner_device) || made.user_device == made.owner_device) {
    return false;
  }
  base::lock_guard lock(mutex_);
  links_.push_back(made);
  return update();
} catch (std::bad_alloc const&) {
  return false;
}

bool peers::disable(CUcontext user, CUcontext owner) noexcept {
  base::lock_guard lock(mutex_);
  std::erase_if(links_,
                [=](link const& each) { return each.user.handle == user && each.owner.handle == owner; });
  return update();
}

bool peers::forget(driver::named_context const& gone) noexcept {
  base::lock_guard lock(mutex_);
  std::erase_if(links_, [&](link const& each) { return each.user.is(gone) || each.owner.is(gone); });
  return update();
}

}  // namespace gpumem::route
