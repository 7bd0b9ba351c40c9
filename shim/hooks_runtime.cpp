// The hooks of the CUDA runtime, met only by callers of a shared libcudart. They change nothing: they note
// who called, so that the driver call below is attributed to the program and not to libcudart, and call the
// real function. Arguments and codes are those of the runtime, whose header is not needed. Any thread; no
// CUDA call, nothing allocated.
#include <cstddef>

#include "shim/dispatch.hpp"
#include "shim/runtime_symbols.hpp"

using namespace gpumem;
using namespace gpumem::shim;

namespace {

constexpr int initialization_error = 3;  // cudaErrorInitializationError: there is no runtime behind us

template <typename... Arguments>
int through(hook which, void const* caller, std::uint64_t bytes, Arguments... arguments) noexcept {
  auto const real = reinterpret_cast<int (*)(Arguments...)>(runtime_function(which, caller));
  if (real == nullptr) return initialization_error;
  if (this_thread.runtime_depth++ == 0) {
    this_thread.runtime_caller = caller;
    this_thread.runtime_hook = static_cast<std::uint16_t>(which);
  }
  int const code = real(arguments...);
  --this_thread.runtime_depth;
  if (process::state.load(std::memory_order_acquire) == process::life::running) {
    counted(which, bytes, static_cast<CUresult>(code));
  }
  return code;
}

}  // namespace

#define GPUMEM_CALLER __builtin_return_address(0)

extern "C" {

int cudaMalloc(void** result, size_t bytes) {
  return through(hook::cudaMalloc, GPUMEM_CALLER, bytes, result, bytes);
}

int cudaMallocAsync(void** result, size_t bytes, void* stream) {
  return through(hook::cudaMallocAsync, GPUMEM_CALLER, bytes, result, bytes, stream);
}

int cudaMallocAsync_ptsz(void** result, size_t bytes, void* stream) {
  return through(hook::cudaMallocAsync_ptsz, GPUMEM_CALLER, bytes, result, bytes, stream);
}

int cudaMallocFromPoolAsync(void** result, size_t bytes, void* pool, void* stream) {
  return through(hook::cudaMallocFromPoolAsync, GPUMEM_CALLER, bytes, result, bytes, pool, stream);
}

int cudaMallocFromPoolAsync_ptsz(void** result, size_t bytes, void* pool, void* stream) {
  return through(hook::cudaMallocFromPoolAsync_ptsz, GPUMEM_CALLER, bytes, result, bytes, pool, stream);
}

int cudaMallocPitch(void** result, size_t* pitch, size_t width, size_t height) {
  return through(hook::cudaMallocPitch, GPUMEM_CALLER, width * height, result, pitch, width, height);
}

int cudaMallocManaged(void** result, size_t bytes, unsigned int flags) {
  return through(hook::cudaMallocManaged, GPUMEM_CALLER, bytes, result, bytes, flags);
}

int cudaMallocHost(void** result, size_t bytes) {
  return through(hook::cudaMallocHost, GPUMEM_CALLER, bytes, result, bytes);
}

int cudaHostAlloc(void** result, size_t bytes, unsigned int flags) {
  return through(hook::cudaHostAlloc, GPUMEM_CALLER, bytes, result, bytes, flags);
}

int cudaFree(void* address) {
  return through(hook::cudaFree, GPUMEM_CALLER, 0, address);
}

int cudaFreeAsync(void* address, void* stream) {
  return through(hook::cudaFreeAsync, GPUMEM_CALLER, 0, address, stream);
}

int cudaFreeAsync_ptsz(void* address, void* stream) {
  return through(hook::cudaFreeAsync_ptsz, GPUMEM_CALLER, 0, address, stream);
}

int cudaFreeHost(void* address) {
  return through(hook::cudaFreeHost, GPUMEM_CALLER, 0, address);
}
}
