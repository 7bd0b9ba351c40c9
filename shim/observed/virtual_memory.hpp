// Physical memory of cuMemCreate: how many bytes it holds and until when. The driver keeps it while a
// handle or a mapping refers to it, so both are counted. Called by the hooks of virtual memory, after a
// real call that takes and before one that gives back, on any thread; one lock, as these calls take tens of
// microseconds in the driver. Memory imported from elsewhere is not counted.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <vector>

#include "core/base/threads/mutex.hpp"
#include "core/route/limits.hpp"

namespace gpumem::shim {

class virtual_memory {
 public:
  // The one table of this process; never destroyed.
  static virtual_memory& instance() noexcept;

  // False when there is no host memory to remember it: then it must not be counted either.
  bool created(CUmemGenericAllocationHandle handle, route::observed_bytes const& what) noexcept;
  void retained(CUmemGenericAllocationHandle handle, CUdeviceptr address) noexcept;
  void mapped(CUdeviceptr address, std::uint64_t bytes, CUmemGenericAllocationHandle handle) noexcept;

  // A handle's value may come again after its last release while the memory is still mapped: hence a number
  // of our own.
  using memory_id = std::uint64_t;
  // What a call that gives back took off before the driver did: after it, handle and addresses may be
  // others'.
  struct step {
    struct reference {
      memory_id id;
      CUdeviceptr address;          // of the map
      std::uint64_t mapped;         // its bytes; 0: of a handle
      bool last;                    // it was what refers to the memory, not one of several of a handle
      route::observed_bytes freed;  // none: something else refers to the memory
    };
    CUmemGenericAllocationHandle handle = 0;
    std::vector<reference> references;
  };
  // Before the call: what it will free, already off the ledger. One of the two that follow must be called.
  step releases(CUmemGenericAllocationHandle handle) noexcept;
  step unmaps(CUdeviceptr address, std::uint64_t bytes) noexcept;
  static void has_left(step const& taken) noexcept;  // the call succeeded
  void undo(step const& taken) noexcept;             // it failed
  void reset_in_child() noexcept;

 private:
  struct memory {
    route::observed_bytes held;
    std::uint32_t references;  // by handles and mappings
  };
  struct mapping {
    std::uint64_t bytes;
    memory_id id;
  };
  struct named {
    memory_id id;
    std::uint32_t references;
  };

  route::observed_bytes drop(memory_id id) noexcept GPUMEM_REQUIRES(lock_);
  void hold(step::reference const& taken) GPUMEM_REQUIRES(lock_);

  base::mutex lock_;
  memory_id last_ GPUMEM_GUARDED_BY(lock_) = 0;
  std::map<memory_id, memory> memories_ GPUMEM_GUARDED_BY(lock_);
  std::map<CUmemGenericAllocationHandle, named> handles_ GPUMEM_GUARDED_BY(lock_);
  std::map<CUdeviceptr, mapping> mappings_ GPUMEM_GUARDED_BY(lock_);
};

}  // namespace gpumem::shim
