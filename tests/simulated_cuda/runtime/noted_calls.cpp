// What a program linked with the shared stand-in of the runtime was given and gave back, noted in the program
// itself (by the linker's --wrap): a preload library may answer cudaMalloc without calling the runtime, and
// must be seen doing it. Any thread. Until the driver is loaded, and where a program finds the functions by
// name, the runtime notes instead.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <atomic>

#include "simulated.h"

namespace {

struct notes {
  decltype(&simulatedNoteAllocate) allocate;
  decltype(&simulatedNoteFree) free;
  decltype(&simulatedNoteFreeRefused) refused;
  decltype(&simulatedNotesAbove) above;
};

notes const* find() {
  static std::atomic<notes const*> found{nullptr};
  if (notes const* const known = found.load(std::memory_order_acquire)) return known;
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) {
    dlerror();
    return nullptr;
  }
  auto const get = [driver](char const* name) { return dlsym(driver, name); };
  auto* const made = new notes{reinterpret_cast<decltype(notes::allocate)>(get("simulatedNoteAllocate")),
                               reinterpret_cast<decltype(notes::free)>(get("simulatedNoteFree")),
                               reinterpret_cast<decltype(notes::refused)>(get("simulatedNoteFreeRefused")),
                               reinterpret_cast<decltype(notes::above)>(get("simulatedNotesAbove"))};
  if (made->above == nullptr) return nullptr;
  found.store(made, std::memory_order_release);
  return made;
}

template <typename Call>
cudaError_t allocate(void** out, std::size_t bytes, cudaStream_t on, Call call) {
  notes const* const n = find();
  if (n == nullptr) return call();
  // The call may run a host function on this thread, which notes for itself: so what held before comes back.
  int const before = n->above(1);
  cudaError_t const code = call();
  n->above(0);
  if (code == cudaSuccess && out != nullptr && *out != nullptr) {
    n->allocate(reinterpret_cast<CUdeviceptr>(*out), bytes, on);
  }
  n->above(before);
  return code;
}

template <typename Call>
cudaError_t give_back(void* memory, cudaStream_t on, Call call) {
  notes const* const n = memory != nullptr ? find() : nullptr;
  if (n == nullptr) return call();
  auto const address = reinterpret_cast<CUdeviceptr>(memory);
  int const before = n->above(0);
  n->free(address, on);
  n->above(1);
  cudaError_t const code = call();
  n->above(0);
  if (code != cudaSuccess) n->refused(address);
  n->above(before);
  return code;
}

}  // namespace

extern "C" {

cudaError_t __real_cudaMalloc(void** out, size_t bytes);
cudaError_t __real_cudaFree(void* memory);
cudaError_t __wrap_cudaMalloc(void** out, size_t bytes);
cudaError_t __wrap_cudaFree(void* memory);

cudaError_t __wrap_cudaMalloc(void** out, size_t bytes) {
  return allocate(out, bytes, nullptr, [=] { return __real_cudaMalloc(out, bytes); });
}

cudaError_t __wrap_cudaFree(void* memory) {
  return give_back(memory, nullptr, [=] { return __real_cudaFree(memory); });
}

#define STREAM_ORDERED(suffix)                                                                       \
  cudaError_t __real_cudaMallocAsync##suffix(void** out, size_t bytes, cudaStream_t on);             \
  cudaError_t __real_cudaFreeAsync##suffix(void* memory, cudaStream_t on);                           \
  cudaError_t __wrap_cudaMallocAsync##suffix(void** out, size_t bytes, cudaStream_t on);             \
  cudaError_t __wrap_cudaFreeAsync##suffix(void* memory, cudaStream_t on);                           \
  cudaError_t __wrap_cudaMallocAsync##suffix(void** out, size_t bytes, cudaStream_t on) {            \
    return allocate(out, bytes, on, [=] { return __real_cudaMallocAsync##suffix(out, bytes, on); }); \
  }                                                                                                  \
  cudaError_t __wrap_cudaFreeAsync##suffix(void* memory, cudaStream_t on) {                          \
    return give_back(memory, on, [=] { return __real_cudaFreeAsync##suffix(memory, on); });          \
  }
STREAM_ORDERED()
STREAM_ORDERED(_ptsz)

}  // extern "C"
