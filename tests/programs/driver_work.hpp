// The same small work over the driver API for driver_linked and driver_dlopen, which differ only in how they
// come by the functions. One thread. Prints a checksum and the counts.
#pragma once

#include <cuda.h>

#include "tests/programs/support.hpp"

namespace programs {

struct driver_functions {
  decltype(&::cuInit) init;
  decltype(&::cuDeviceGet) device_get;
  decltype(&::cuDevicePrimaryCtxRetain) retain;
  decltype(&::cuCtxSetCurrent) set_current;
  decltype(&::cuMemAlloc_v2) alloc;
  decltype(&::cuMemFree_v2) free;
  decltype(&::cuMemsetD8_v2) memset8;
  decltype(&::cuMemcpyDtoH_v2) copy_to_host;
  decltype(&::cuCtxSynchronize) synchronize;
};

inline int driver_work(const driver_functions& cuda) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  REQUIRE(cuda.init(0));
  REQUIRE(cuda.device_get(&device, 0));
  REQUIRE(cuda.retain(&context, device));
  REQUIRE(cuda.set_current(context));
  checksum sum;
  sequence random(11);
  CUdeviceptr held[4] = {};
  for (unsigned round = 0; round < 100; ++round) {
    CUdeviceptr& slot = held[round % 4];
    if (slot != 0) {
      REQUIRE(cuda.free(slot));
      ++counts.frees;
    }
    const std::size_t bytes = 1 + random.next(1 << 20);
    REQUIRE(cuda.alloc(&slot, bytes));
    ++counts.allocations;
    counts.bytes += bytes;
    REQUIRE(cuda.memset8(slot, static_cast<unsigned char>(round), bytes));
    std::vector<unsigned char> host(bytes);
    REQUIRE(cuda.copy_to_host(host.data(), slot, bytes));
    sum.add(host.data(), bytes);
  }
  for (CUdeviceptr last : held) {
    REQUIRE(cuda.free(last));
    ++counts.frees;
  }
  REQUIRE(cuda.synchronize());
  std::printf("checksum %016llx\n", (unsigned long long)sum.value());
  counts.print();
  return 0;
}

}  // namespace programs
