// Which devices may access the memory of which, as the program enabled it between its contexts. Driver
// pools must be told (cuMemPoolSetAccess): cuCtxEnablePeerAccess covers only cuMemAlloc's memory. Written
// under its own lock when the program changes access or a context goes; upstreams read the masks without
// it. Makes no driver call.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "core/base/threads/mutex.hpp"
#include "core/driver/context_id.hpp"

namespace gpumem::route {

class peers {
 public:
  static constexpr std::size_t max_devices = 64;

  struct link {  // `user` may touch the memory of `owner`
    driver::named_context user, owner;
    int user_device, owner_device;
  };

  // True if the mask of the owner's device changed by it.
  bool enable(link const& made) noexcept;
  bool disable(CUcontext user, CUcontext owner) noexcept;
  // A context is gone, and with it all access from and to it.
  bool forget(driver::named_context const& gone) noexcept;

  // Bit d: device d may touch the memory of `device`. Null for a device without a number here.
  std::atomic<std::uint64_t> const* mask_of(int device) const noexcept {
    return known(device) ? &masks_[static_cast<std::size_t>(device)] : nullptr;
  }

 private:
  static bool known(int device) noexcept {
    return device >= 0 && static_cast<std::size_t>(device) < max_devices;
  }
  // Derives the masks of all devices from what is enabled; true: one of them changed.
  bool update() noexcept GPUMEM_REQUIRES(mutex_);

  base::mutex mutex_;
  std::vector<link> links_ GPUMEM_GUARDED_BY(mutex_);
  std::array<std::atomic<std::uint64_t>, max_devices> masks_{};
};

}  // namespace gpumem::route
