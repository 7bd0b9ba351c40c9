// Which device a memory pool takes its memory from: noted when the program makes the pool; for a device's
// own pools asked of the driver. Called by hooks on any thread; one lock, but for the pool that was asked
// about last.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>

#include "core/base/threads/mutex.hpp"

namespace gpumem::shim {

class memory_pools {
 public:
  static constexpr int host = -1, unknown = -2;

  // The one table of this process; never destroyed.
  static memory_pools& instance() noexcept;

  // After the driver's success.
  void made(CUmemoryPool pool, CUmemPoolProps const& properties) noexcept;
  // Before the driver is asked to destroy one, after which the handle may be another pool's: what was known
  // of it, for survived() where the driver refused.
  int ends(CUmemoryPool pool) noexcept;
  void survived(CUmemoryPool pool, int device) noexcept;
  // A device, `host`, or `unknown`: of another process.
  int device_of(CUmemoryPool pool) noexcept;
  void reset_in_child() noexcept;

 private:
  // Pool and device in one word, so that both are read at once: an address has 48 bits.
  static constexpr unsigned address_bits = 48;
  static std::uint64_t packed(CUmemoryPool pool, int device) noexcept {
    return reinterpret_cast<std::uint64_t>(pool) | static_cast<std::uint64_t>(device - unknown)
                                                       << address_bits;
  }

  base::mutex lock_;
  std::atomic<std::uint64_t> last_{0};
  std::map<CUmemoryPool, int> devices_ GPUMEM_GUARDED_BY(lock_);
};

}  // namespace gpumem::shim
