// Physical memory of cuMemCreate: how many bytes it holds and until when. The driver keeps it while a handle
// or a mapping refers to it, so both are followed. Called by the VMM hooks after the real call, on any
// thread; one lock, as these calls take tens of microseconds in the driver. Memory imported from elsewhere is
// not ours and is not counted.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>

namespace gpumem::shim {

class virtual_memory {
 public:
  // The one table of this process; never destroyed.
  static virtual_memory& instance() noexcept;

  // False when there is no host memory to remember it: then it must not be counted either.
  bool created(CUmemGenericAllocationHandle handle, std::uint64_t bytes, int device) noexcept;
  void retained(CUmemGenericAllocationHandle handle, CUdeviceptr address) noexcept;
  void released(CUmemGenericAllocationHandle handle) noexcept;
  void mapped(CUdeviceptr address, std::uint64_t bytes, CUmemGenericAllocationHandle handle) noexcept;
  void unmapped(CUdeviceptr address, std::uint64_t bytes) noexcept;
  void reset_in_child() noexcept;

 private:
  // A handle's value may come again after its last release while the memory is still mapped: hence a number
  // of our own.
  using memory_id = std::uint64_t;
  struct memory {
    std::uint64_t bytes;
    int device;
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

  void drop(memory_id id) noexcept;

  std::mutex lock_;
  memory_id last_ = 0;
  std::map<memory_id, memory> memories_;
  std::map<CUmemGenericAllocationHandle, named> handles_;
  std::map<CUdeviceptr, mapping> mappings_;
};

}  // namespace gpumem::shim
