// Hooks of the CUDA runtime, for callers of a shared libcudart. They note who called, so that the driver
// call below is attributed to the program and not to libcudart, and call the real function. A request that
// a chain can serve at once is served here: the runtime would add nothing, as it is set up on this thread
// with this context, and a success changes no state of its own. Arguments and codes are the runtime's,
// whose header is not needed. Any thread; nothing is allocated.
#include <atomic>
#include <cstddef>
#include <cstdlib>

#include "shim/hooks/dispatch.hpp"
#include "shim/symbols/objects/elf_object.hpp"
#include "shim/symbols/objects/known_objects.hpp"
#include "shim/symbols/runtime_calls.hpp"
#include "shim/symbols/runtime_symbols.hpp"

using namespace gpumem;
using namespace gpumem::shim;

namespace {

constexpr int initialization_error = 3;  // cudaErrorInitializationError: there is no runtime behind us

// A profiler that was injected sees the runtime's calls from inside it: all of them go through. Before 12.0
// cudaSetDevice leaves the context to the next call, which must then be the runtime's.
bool may_serve_for(void const* runtime) noexcept {
  static constinit known_objects<bool, 4> runtimes{};
  if (auto const known = runtimes.find(runtime)) return *known;
  // The runtime refuses once its exit handler ran, which was registered before this one.
  static bool const watched = atexit(leave_all_calls_to_runtime) == 0;
  auto const object = elf_object::containing(runtime);
  auto const version = reinterpret_cast<int (*)(int*)>(object.function("cudaRuntimeGetVersion"));
  int number = 0;
  bool const injected = getenv("CUDA_INJECTION64_PATH") != nullptr;
  bool const may = watched && !injected && is_runtime(object) && version != nullptr &&
                   version(&number) == 0 && number >= 12000;
  if (may) look_for_wrappers();
  if (object) runtimes.remember(object, may);
  return may;
}

void runtime_is_set_up(void const* runtime) noexcept {
  hook_scope const scope;
  if (!scope || !may_serve_for(runtime)) return;
  this_thread.runtime_context = current_context();
  this_thread.runtime_since = route::changes();
}

// With some context, which this thread still has.
[[gnu::always_inline]] inline bool runtime_is_here() noexcept {
  if (this_thread.runtime_context == nullptr || this_thread.runtime_since != route::changes()) [[unlikely]]
    return false;
  return !all_calls_are_the_runtimes.load(std::memory_order_relaxed);
}

[[gnu::always_inline]] inline bool runtime_knows(CUcontext context) noexcept {
  return runtime_is_here() && context == this_thread.runtime_context;
}

// True: served, as the real function would have. False: the real function must be called.
[[gnu::always_inline]] inline bool serve_here(hook which, hook below, void** result, std::size_t bytes,
                                              bool ordered, CUstream stream, void const* caller) noexcept {
  if (result == nullptr || bytes == 0 || !ensure_hook_may_work()) [[unlikely]]
    return false;
  hook_at_work const at_work;
  driver::request request{.bytes = bytes,
                          .stream_ordered = ordered,
                          .hook = static_cast<std::uint16_t>(below),
                          .called = static_cast<std::uint16_t>(which),
                          .context = current_context(),
                          .stream = stream,
                          .caller = caller};
  if (!runtime_knows(request.context)) [[unlikely]]
    return false;
  if (ordered && !is_default(stream)) request.context = nullptr;
  CUdeviceptr address = 0;
  auto const outcome = route::allocate(request, &address);
  if (!outcome.served()) [[unlikely]] {
    this_thread.passed = bytes;
    return false;
  }
  if (outcome.code != CUDA_SUCCESS) [[unlikely]] {
    this_thread.refused = outcome.code;
    return false;
  }
  *result = reinterpret_cast<void*>(address);
  counted_served(below, bytes);
  counted(which, bytes, CUDA_SUCCESS);
  return true;
}

[[gnu::always_inline]] inline bool take_back_here(hook which, hook below, void* address, bool ordered,
                                                  CUstream stream, void const* caller) noexcept {
  if (address == nullptr || !ensure_hook_may_work()) [[unlikely]]
    return false;
  hook_at_work const at_work;
  if (!runtime_is_here()) [[unlikely]]
    return false;
  driver::free_request release{.address = reinterpret_cast<CUdeviceptr>(address),
                               .stream_ordered = ordered,
                               .answered_below = true,
                               .hook = static_cast<std::uint16_t>(below),
                               .stream = stream,
                               .caller = caller};
  if (ordered && is_default(stream)) {
    release.context = current_context();
    if (!runtime_knows(release.context)) [[unlikely]]
      return false;
  }
  // A wrong free is answered, and told, from below alone.
  auto const outcome = route::release(release);
  if (outcome.code != CUDA_SUCCESS) return false;  // the same answer again, from below
  counted_served(below);
  counted(which, 0, CUDA_SUCCESS);
  return true;
}

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
  this_thread.refused = CUDA_SUCCESS;
  this_thread.passed = 0;
  if (code == 0) runtime_is_set_up(reinterpret_cast<void const*>(real));
  if (process::state.load(std::memory_order_acquire) == process::life::running) {
    counted(which, bytes, static_cast<CUresult>(code));
  }
  return code;
}

}  // namespace

#define GPUMEM_CALLER __builtin_return_address(0)

extern "C" {

int cudaMalloc(void** result, size_t bytes) {
  if (serve_here(hook::cudaMalloc, hook::cuMemAlloc_v2, result, bytes, false, nullptr, GPUMEM_CALLER))
      [[likely]]
    return 0;
  return through(hook::cudaMalloc, GPUMEM_CALLER, bytes, result, bytes);
}

int cudaMallocAsync(void** result, size_t bytes, void* stream) {
  CUstream const named = named_stream(static_cast<CUstream>(stream), false);
  if (serve_here(hook::cudaMallocAsync, hook::cuMemAllocAsync, result, bytes, true, named, GPUMEM_CALLER))
      [[likely]]
    return 0;
  return through(hook::cudaMallocAsync, GPUMEM_CALLER, bytes, result, bytes, stream);
}

int cudaMallocAsync_ptsz(void** result, size_t bytes, void* stream) {
  CUstream const named = named_stream(static_cast<CUstream>(stream), true);
  if (serve_here(hook::cudaMallocAsync_ptsz, hook::cuMemAllocAsync_ptsz, result, bytes, true, named,
                 GPUMEM_CALLER)) [[likely]]
    return 0;
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
  if (take_back_here(hook::cudaFree, hook::cuMemFree_v2, address, false, nullptr, GPUMEM_CALLER)) [[likely]]
    return 0;
  return through(hook::cudaFree, GPUMEM_CALLER, 0, address);
}

int cudaFreeAsync(void* address, void* stream) {
  CUstream const named = named_stream(static_cast<CUstream>(stream), false);
  if (take_back_here(hook::cudaFreeAsync, hook::cuMemFreeAsync, address, true, named, GPUMEM_CALLER))
      [[likely]]
    return 0;
  return through(hook::cudaFreeAsync, GPUMEM_CALLER, 0, address, stream);
}

int cudaFreeAsync_ptsz(void* address, void* stream) {
  CUstream const named = named_stream(static_cast<CUstream>(stream), true);
  if (take_back_here(hook::cudaFreeAsync_ptsz, hook::cuMemFreeAsync_ptsz, address, true, named,
                     GPUMEM_CALLER)) [[likely]]
    return 0;
  return through(hook::cudaFreeAsync_ptsz, GPUMEM_CALLER, 0, address, stream);
}

int cudaFreeHost(void* address) {
  return through(hook::cudaFreeHost, GPUMEM_CALLER, 0, address);
}
}
