// Hooks of memory that chains may serve: device, managed and pinned host memory, stream-ordered, pitched or
// not. Called by the program on any thread. No policy here: each makes its request and hands it to
// dispatch, where null pointers, size 0 and calls without a context get the driver's own answer.
#include "shim/hooks/dispatch.hpp"

using namespace gpumem;
using namespace gpumem::shim;

namespace {

driver::request request_of(std::uint64_t bytes, driver::memory_kind kind, void const* caller,
                           unsigned flags = 0) noexcept {
  return {.bytes = bytes, .kind = kind, .flags = flags, .caller = program_caller(caller)};
}

driver::request request_on(std::uint64_t bytes, CUstream stream, bool per_thread,
                           void const* caller) noexcept {
  return {.bytes = bytes,
          .kind = driver::memory_kind::device,
          .stream_ordered = true,
          .stream = named_stream(stream, per_thread),
          .caller = program_caller(caller)};
}

driver::free_request release_of(CUdeviceptr address, void const* caller) noexcept {
  return {.address = address, .caller = program_caller(caller)};
}

driver::free_request release_on(CUdeviceptr address, CUstream stream, bool per_thread,
                                void const* caller) noexcept {
  return {.address = address,
          .stream_ordered = true,
          .stream = named_stream(stream, per_thread),
          .caller = program_caller(caller)};
}

// The driver says how far apart the rows are, once for each shape; what takes as many bytes can then be had
// from a chain.
CUresult pitched(CUdeviceptr* result, size_t* pitch, route::rows const& wanted, void const* caller) noexcept {
  constexpr hook which = hook::cuMemAllocPitch_v2;
  auto const real = [&] {
    return GPUMEM_REAL(cuMemAllocPitch_v2)(result, pitch, wanted.width, wanted.height, wanted.element);
  };
  std::uint64_t known = 0;
  std::uint64_t bytes = 0;
  if (hook_scope const scope; scope && pitch != nullptr) {
    known = route::known_pitch(current_context(), wanted);
    if (__builtin_mul_overflow(known, wanted.height, &bytes)) known = 0;
  }
  if (known != 0) {
    bool asked = false;
    CUresult const code =
        allocate(which, request_of(bytes, driver::memory_kind::device, caller), result, [&] {
          asked = true;
          return real();
        });
    if (!asked && code == CUDA_SUCCESS) *pitch = known;
    return code;
  }
  constexpr std::uint64_t row = 512;  // what the driver rounds rows up to, at most
  return taking(which, (wanted.width + row - 1) / row * row * wanted.height, program_caller(caller), real,
                [&](reservation& reserved) {
                  reserved.commit(observed_kind::address, *result, *pitch * wanted.height);
                  route::pitch_learnt(current_context(), wanted, *pitch);
                });
}

CUdeviceptr* as_address(void** pointer) noexcept {
  return reinterpret_cast<CUdeviceptr*>(pointer);
}

}  // namespace

extern "C" {

CUresult cuMemAlloc_v2(CUdeviceptr* result, size_t bytes) {
  return allocate(hook::cuMemAlloc_v2,
                  request_of(bytes, driver::memory_kind::device, __builtin_return_address(0)), result,
                  [&] { return GPUMEM_REAL(cuMemAlloc_v2)(result, bytes); });
}

CUresult cuMemAllocAsync(CUdeviceptr* result, size_t bytes, CUstream stream) {
  return allocate(hook::cuMemAllocAsync, request_on(bytes, stream, false, __builtin_return_address(0)),
                  result, [&] { return GPUMEM_REAL(cuMemAllocAsync)(result, bytes, stream); });
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr* result, size_t bytes, CUstream stream) {
  return allocate(hook::cuMemAllocAsync_ptsz, request_on(bytes, stream, true, __builtin_return_address(0)),
                  result, [&] { return GPUMEM_REAL(cuMemAllocAsync_ptsz)(result, bytes, stream); });
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* result, size_t* pitch, size_t width, size_t height,
                            unsigned int element) {
  return pitched(result, pitch, {width, height, element}, __builtin_return_address(0));
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return release(hook::cuMemFree_v2, release_of(address, __builtin_return_address(0)),
                 [&] { return GPUMEM_REAL(cuMemFree_v2)(address); });
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return release(hook::cuMemFreeAsync, release_on(address, stream, false, __builtin_return_address(0)),
                 [&] { return GPUMEM_REAL(cuMemFreeAsync)(address, stream); });
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  return release(hook::cuMemFreeAsync_ptsz, release_on(address, stream, true, __builtin_return_address(0)),
                 [&] { return GPUMEM_REAL(cuMemFreeAsync_ptsz)(address, stream); });
}

// Flags that no driver takes: it says so before it looks at captures (measured), and no chain serves them.
CUresult cuMemAllocManaged(CUdeviceptr* result, size_t bytes, unsigned int flags) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) [[unlikely]] {
    return observe(
        hook::cuMemAllocManaged, 0, [&] { return GPUMEM_REAL(cuMemAllocManaged)(result, bytes, flags); },
        [] {});
  }
  return allocate(hook::cuMemAllocManaged,
                  request_of(bytes, driver::memory_kind::managed, __builtin_return_address(0), flags), result,
                  [&] { return GPUMEM_REAL(cuMemAllocManaged)(result, bytes, flags); });
}

CUresult cuMemAllocHost_v2(void** result, size_t bytes) {
  return allocate(hook::cuMemAllocHost_v2,
                  request_of(bytes, driver::memory_kind::host, __builtin_return_address(0)),
                  as_address(result), [&] { return GPUMEM_REAL(cuMemAllocHost_v2)(result, bytes); });
}

// The same of flags that no driver takes.
CUresult cuMemHostAlloc(void** result, size_t bytes, unsigned int flags) {
  constexpr unsigned int known =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if ((flags & ~known) != 0) [[unlikely]]
    return observe(
        hook::cuMemHostAlloc, 0, [&] { return GPUMEM_REAL(cuMemHostAlloc)(result, bytes, flags); }, [] {});
  return allocate(hook::cuMemHostAlloc,
                  request_of(bytes, driver::memory_kind::host, __builtin_return_address(0), flags),
                  as_address(result), [&] { return GPUMEM_REAL(cuMemHostAlloc)(result, bytes, flags); });
}

CUresult cuMemFreeHost(void* address) {
  driver::free_request freed =
      release_of(reinterpret_cast<CUdeviceptr>(address), __builtin_return_address(0));
  freed.kind = driver::memory_kind::host;
  return release(hook::cuMemFreeHost, freed, [&] { return GPUMEM_REAL(cuMemFreeHost)(address); });
}
}
