// The stand-in runtime's way to the driver, and what it keeps per thread: device and last error.
// Every exported cuda* function starts with `enter`, on any thread.
// The driver is found exactly as the real runtime finds it: dlopen at the first call, one dlsym, then
// cuGetProcAddress.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "simulated.h"

namespace simulated_runtime {

struct driver_table {
#define DRIVER(name, version) decltype(&::name) name = nullptr;
#define DRIVER_STREAM(name, version) DRIVER(name, version)
#include "driver.def"
#undef DRIVER
#undef DRIVER_STREAM
};

struct library {
  cudaError_t state = cudaSuccess;  // what start-up came to
  decltype(&::cuGetProcAddress) get_address = nullptr;
  driver_table legacy, per_thread;  // by meaning of stream 0
  decltype(&::simulatedNoteAllocate) note_allocate = nullptr;
  decltype(&::simulatedNoteFree) note_free = nullptr;
  decltype(&::simulatedNoteFreeRefused) note_free_refused = nullptr;
};
library& driver();  // loads at the first call

// Makes sure that a context is current; cudaSuccess or why not.
cudaError_t enter();
cudaError_t set_device(int device);
int current_device();
cudaError_t reset_device();
// Keeps the last error, and counts a call.
cudaError_t note(cudaError_t code);
inline cudaError_t note(CUresult code) {
  return note(static_cast<cudaError_t>(code));
}
cudaError_t take_last_error(bool clear);

inline CUdeviceptr number(void const* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace simulated_runtime

#define RUNTIME_API extern "C" __attribute__((visibility("default"))) cudaError_t CUDARTAPI

// One function of the runtime; `d` is the driver. With a second form for per-thread default streams where it
// has one.
#define RUNTIME_FUNCTION(name, parameters, expression)                              \
  RUNTIME_API name parameters {                                                     \
    if (cudaError_t const code = simulated_runtime::enter(); code != cudaSuccess) { \
      return simulated_runtime::note(code);                                         \
    }                                                                               \
    [[maybe_unused]] auto const& d = simulated_runtime::driver().legacy;            \
    return simulated_runtime::note(expression);                                     \
  }
// As the real ones do it: the driver is asked first, and the thread bound when it finds no context there.
#define RUNTIME_TRIED(name, table, parameters, expression)                             \
  RUNTIME_API name parameters {                                                        \
    cudaError_t code = simulated_runtime::driver().state;                              \
    [[maybe_unused]] auto const& d = simulated_runtime::driver().table;                \
    if (code == cudaSuccess) code = expression;                                        \
    if (code == cudaErrorDeviceUninitialized || code == cudaErrorContextIsDestroyed) { \
      if (code = simulated_runtime::enter(); code == cudaSuccess) code = expression;   \
    }                                                                                  \
    return simulated_runtime::note(code);                                              \
  }
#define RUNTIME_BOTH_TRIED(name, suffix, parameters, expression) \
  RUNTIME_TRIED(name, legacy, parameters, expression)            \
  RUNTIME_TRIED(name##suffix, per_thread, parameters, expression)
#define RUNTIME_BOTH(name, suffix, parameters, expression)                          \
  RUNTIME_FUNCTION(name, parameters, expression)                                    \
  RUNTIME_API name##suffix parameters {                                             \
    if (cudaError_t const code = simulated_runtime::enter(); code != cudaSuccess) { \
      return simulated_runtime::note(code);                                         \
    }                                                                               \
    [[maybe_unused]] auto const& d = simulated_runtime::driver().per_thread;        \
    return simulated_runtime::note(expression);                                     \
  }
