// One call at a time that retains, releases or resets a device's primary context, where the driver cannot
// say which context a handle names (before 12.0). Without this, another thread could retain the next
// context between the end of one and our note of it, and be served memory that is gone. Newer drivers give
// contexts numbers: nobody waits here. Taken by the hooks of these calls, on any thread, with nothing else
// held.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>

#include "core/base/threads/undestroyed.hpp"
#include "core/driver/context_id.hpp"

namespace gpumem::shim {

class primary_calls {
 public:
  explicit primary_calls(CUdevice device) noexcept {
    auto& all = base::undestroyed<locks>::get().of;
    if (driver::tells_contexts_apart() || device < 0 || static_cast<std::size_t>(device) >= all.size())
      return;
    mine_ = std::unique_lock(all[static_cast<std::size_t>(device)]);
  }
  static void reset_in_child() noexcept { base::undestroyed<locks>::renew(); }

 private:
  // One for each device.
  struct locks {
    std::array<std::mutex, 128> of;
  };
  std::unique_lock<std::mutex> mine_;
};

}  // namespace gpumem::shim
