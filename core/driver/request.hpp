// What the program asked (request) and what it gives back (release), as plain values handed down the chain.
// Made by the shim on the caller's stack; lives as long as the call. No ownership, no heap.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpumem::driver {

enum class memory_kind : std::uint8_t { device, managed, host };

// An allocation.
struct request {
  std::uint64_t bytes = 0;  // as asked, never rounded
  memory_kind kind = memory_kind::device;
  bool stream_ordered = false;   // cudaMallocAsync family: `stream` holds
  bool of_pool = false;          // in the place of a pool that the program made
  std::uint16_t hook = 0;        // index into the shim's symbols.def
  std::uint16_t called = 0;      // the same of what the program itself called: a runtime function, or `hook`
  unsigned flags = 0;            // of cuMemAllocManaged / cuMemHostAlloc
  CUcontext context = nullptr;   // current; null with a stream that is no default one: it knows
  CUstream stream = nullptr;     // CU_STREAM_LEGACY / CU_STREAM_PER_THREAD, never 0, when ordered
  void const* caller = nullptr;  // code that asked: of the runtime's call when it came through one
  std::uint32_t alignment = 0;   // bytes, a power of two; 0: any block is aligned enough
  std::uint64_t named = 0;       // bits of the rules whose name the program asked for; 0: it asked for none
};

// A free.
struct free_request {
  CUdeviceptr address = 0;
  memory_kind kind = memory_kind::device;  // host: by cuMemFreeHost; anything else: by cuMemFree
  bool stream_ordered = false;             // cudaFreeAsync: `stream` holds
  bool answered_below = false;             // a refusal is handed down, to be asked for there: not twice
  std::uint16_t hook = 0;
  CUcontext context = nullptr;  // as above when ordered; else unused: cuMemFree needs none
  CUstream stream = nullptr;
  void const* caller = nullptr;  // as above
};

}  // namespace gpumem::driver
