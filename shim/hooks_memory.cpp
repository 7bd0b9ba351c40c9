// The hooks of memory that chains may serve: device, managed and pinned host memory, stream-ordered or not.
// Called by the program on any thread. No policy here: each names its request and hands it to dispatch; null
// pointers, size 0 and calls without a context get the driver's own answer there.
#include "shim/dispatch.hpp"

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

driver::release release_of(CUdeviceptr address, void const* caller) noexcept {
  return {.address = address, .caller = program_caller(caller)};
}

driver::release release_on(CUdeviceptr address, CUstream stream, bool per_thread,
                           void const* caller) noexcept {
  return {.address = address,
          .stream_ordered = true,
          .stream = named_stream(stream, per_thread),
          .caller = program_caller(caller)};
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

CUresult cuMemAllocManaged(CUdeviceptr* result, size_t bytes, unsigned int flags) {
  return allocate(hook::cuMemAllocManaged,
                  request_of(bytes, driver::memory_kind::managed, __builtin_return_address(0), flags), result,
                  [&] { return GPUMEM_REAL(cuMemAllocManaged)(result, bytes, flags); });
}

CUresult cuMemAllocHost_v2(void** result, size_t bytes) {
  return allocate(hook::cuMemAllocHost_v2,
                  request_of(bytes, driver::memory_kind::host, __builtin_return_address(0)),
                  as_address(result), [&] { return GPUMEM_REAL(cuMemAllocHost_v2)(result, bytes); });
}

CUresult cuMemHostAlloc(void** result, size_t bytes, unsigned int flags) {
  return allocate(hook::cuMemHostAlloc,
                  request_of(bytes, driver::memory_kind::host, __builtin_return_address(0), flags),
                  as_address(result), [&] { return GPUMEM_REAL(cuMemHostAlloc)(result, bytes, flags); });
}

CUresult cuMemFreeHost(void* address) {
  driver::release freed = release_of(reinterpret_cast<CUdeviceptr>(address), __builtin_return_address(0));
  freed.kind = driver::memory_kind::host;
  return release(hook::cuMemFreeHost, freed, [&] { return GPUMEM_REAL(cuMemFreeHost)(address); });
}
}
