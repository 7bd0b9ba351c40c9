// Which device a memory pool takes its memory from: noted when the program makes the pool; for a device's
// own pools asked of the driver. Called by hooks on any thread; one lock, as these calls are rare.
#pragma once

#include <cuda.h>

#include <map>

#include "core/base/threads/mutex.hpp"

namespace gpumem::shim {

class memory_pools {
 public:
  static constexpr int host = -1, unknown = -2;

  // The one table of this process; never destroyed.
  static memory_pools& instance() noexcept;

  // After the driver's success, and before it is asked to destroy one.
  void made(CUmemoryPool pool, CUmemPoolProps const& properties) noexcept;
  void destroyed(CUmemoryPool pool) noexcept;
  // A device, `host`, or `unknown`: of another process.
  int device_of(CUmemoryPool pool) noexcept;
  void reset_in_child() noexcept;

 private:
  base::mutex lock_;
  std::map<CUmemoryPool, int> devices_ GPUMEM_GUARDED_BY(lock_);
};

}  // namespace gpumem::shim
