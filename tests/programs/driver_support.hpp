// What programs of the driver API share besides: blocks that are counted as the programs' own, and contexts
// in the form that every driver has. Used by tests/programs, from any thread.
#pragma once

#include <cuda.h>

#include "tests/programs/support.hpp"

#ifndef cuCtxCreate_v2  // new headers declare newer forms only
extern "C" CUresult CUDAAPI cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device);
#endif

namespace programs {

inline CUdeviceptr make(std::size_t bytes) {
  CUdeviceptr block = 0;
  REQUIRE(cuMemAlloc(&block, bytes));
  ++counts.allocations;
  counts.bytes += bytes;
  return block;
}

inline CUresult drop(CUdeviceptr block) {
  ++counts.frees;
  return cuMemFree(block);
}

}  // namespace programs
