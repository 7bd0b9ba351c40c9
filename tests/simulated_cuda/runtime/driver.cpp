// Loading the driver, primary contexts, the thread's device and last error.
// Any thread; loading happens once, under the function-local static's guard.
// One dlsym in all, and never a link to libcuda: the preload library is tested against exactly that.
#include "driver.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>

namespace simulated_runtime {
namespace {

struct thread_state {
  int device = 0;
  unsigned bound = 0;  // generation in which a context was made current
  cudaError_t last = cudaSuccess;
};
thread_local thread_state mine;

// Grows with each device reset, so that every thread binds anew.
std::atomic<unsigned> generation{1};
std::atomic<unsigned> retained[64];  // by device: generation of the retain

library* at_exit_of = nullptr;

std::atomic<unsigned long long> calls{0};  // that came to an end

// Under a sanitizer the preload library exports no dlsym, but its other exports come first in the global
// scope.
#ifdef SIMULATED_DRIVER_GLOBAL
constexpr int driver_scope = RTLD_GLOBAL;
void* where_from(void*) {
  return RTLD_DEFAULT;
}
#else
constexpr int driver_scope = RTLD_LOCAL;
void* where_from(void* handle) {
  return handle;
}
#endif

void load(library& made) {
  void* const handle = dlopen("libcuda.so.1", RTLD_NOW | driver_scope);
  if (handle != nullptr) {
    made.get_address =
        reinterpret_cast<decltype(made.get_address)>(dlsym(where_from(handle), "cuGetProcAddress_v2"));
  }
  if (made.get_address == nullptr) {
    made.state = cudaErrorInsufficientDriver;
    return;
  }
  auto const get = made.get_address;
  void* found = nullptr;
  get("", &found, 0, 0, nullptr);
  auto const fetch = [get](char const* name, int version, cuuint64_t flags) {
    void* address = nullptr;
    return get(name, &address, version, flags, nullptr) == CUDA_SUCCESS ? address : nullptr;
  };
#define DRIVER(name, version)                                                                \
  made.legacy.name = reinterpret_cast<decltype(made.legacy.name)>(fetch(#name, version, 0)); \
  made.per_thread.name = made.legacy.name;
#define DRIVER_STREAM(name, version)                                                         \
  made.legacy.name = reinterpret_cast<decltype(made.legacy.name)>(fetch(#name, version, 0)); \
  made.per_thread.name = reinterpret_cast<decltype(made.legacy.name)>(fetch(#name, version, 2));
#include "driver.def"
#undef DRIVER
#undef DRIVER_STREAM
  made.note_allocate =
      reinterpret_cast<decltype(made.note_allocate)>(fetch("simulatedNoteAllocate", 13000, 0));
  made.note_free = reinterpret_cast<decltype(made.note_free)>(fetch("simulatedNoteFree", 13000, 0));
  made.note_free_refused =
      reinterpret_cast<decltype(made.note_free_refused)>(fetch("simulatedNoteFreeRefused", 13000, 0));
  made.state = static_cast<cudaError_t>(made.legacy.cuInit(0));
}

cudaError_t make_current(int device) {
  auto const& d = driver().legacy;
  unsigned const now = generation.load();
  CUcontext primary = nullptr;
  // A retain per generation and device; one too many by a race is harmless, the reset ends them all.
  CUresult code = d.cuDevicePrimaryCtxRetain(&primary, device);
  // Of a process that a fault has lost (measured of code 700: faulted).
  if (code >= CUDA_ERROR_ILLEGAL_ADDRESS && code <= CUDA_ERROR_LAUNCH_FAILED &&
      code != CUDA_ERROR_CONTEXT_IS_DESTROYED)
    return cudaErrorDevicesUnavailable;
  if (code == CUDA_SUCCESS) code = d.cuCtxSetCurrent(primary);
  if (code == CUDA_SUCCESS) {
    retained[device % 64] = now;
    mine.bound = now;
  }
  return static_cast<cudaError_t>(code);
}

}  // namespace

library& driver() {
  static library* const one = [] {
    auto* made = new library;
    load(*made);
    // From its exit handler on the real runtime refuses: a free in a static destructor made before its first
    // call never reaches the driver (measured, static and shared).
    at_exit_of = made;
    std::atexit([] { at_exit_of->state = cudaErrorCudartUnloading; });
    return made;
  }();
  return *one;
}

cudaError_t enter() {
  library const& lib = driver();
  if (lib.state != cudaSuccess) return lib.state;
  unsigned const now = generation.load();
  // A driver API program's own context is used as it is; one that it took away is made current again.
  if (mine.bound == 0 || mine.bound == now) {
    CUcontext current = nullptr;
    CUresult const code = lib.legacy.cuCtxGetCurrent(&current);
    if (code != CUDA_SUCCESS) return static_cast<cudaError_t>(code);
    if (current != nullptr) {
      mine.bound = now;
      return cudaSuccess;
    }
  }
  return make_current(mine.device);
}

cudaError_t set_device(int device) {
  library const& lib = driver();
  if (lib.state != cudaSuccess) return lib.state;
  int count = 0;
  lib.legacy.cuDeviceGetCount(&count);
  if (device < 0 || device >= count) return cudaErrorInvalidDevice;
  mine.device = device;
  return make_current(device);
}

int current_device() {
  CUdevice device = mine.device;
  if (mine.bound != 0) driver().legacy.cuCtxGetDevice(&device);
  return device;
}

cudaError_t reset_device() {
  library const& lib = driver();
  if (lib.state != cudaSuccess) return lib.state;
  CUresult const code = lib.legacy.cuDevicePrimaryCtxReset(mine.device);
  ++generation;
  return static_cast<cudaError_t>(code);
}

cudaError_t note(cudaError_t code) {
  calls.fetch_add(1, std::memory_order_relaxed);
  if (code != cudaSuccess) mine.last = code;
  return code;
}

cudaError_t take_last_error(bool clear) {
  cudaError_t const code = mine.last;
  if (clear) mine.last = cudaSuccess;
  return code;
}

}  // namespace simulated_runtime

extern "C" __attribute__((visibility("default"))) unsigned long long cudaSimulatedCalls() {
  return simulated_runtime::calls.load(std::memory_order_relaxed);
}
