// Hooks of memory that is counted but never served by a chain: arrays, pools, virtual memory, registered
// host memory, IPC imports. Called by the program on any thread. The driver does the work; here its result
// is noted. An allocation that ran out of memory is tried once more after cached memory went back, and so is
// what maps memory: page tables are the device's memory as well.
#include <algorithm>

#include "core/route/default_pools.hpp"
#include "shim/hooks/dispatch.hpp"
#include "shim/observed/memory_pools.hpp"
#include "shim/observed/virtual_memory.hpp"

using namespace gpumem;
using namespace gpumem::shim;

namespace {

constexpr auto nothing = [] {};

std::uint64_t format_bytes(CUarray_format format) noexcept {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 2;  // 16 bits, or a packed format that has no exact size
  }
}

// The texels; the driver's own padding cannot be asked for. What is mapped later is memory of cuMemCreate.
std::uint64_t array_bytes(CUDA_ARRAY3D_DESCRIPTOR const& array) noexcept {
  if ((array.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) return 0;
  return format_bytes(array.Format) * array.NumChannels * array.Width *
         std::max<std::size_t>(array.Height, 1) * std::max<std::size_t>(array.Depth, 1);
}

std::uint64_t mipmapped_bytes(CUDA_ARRAY3D_DESCRIPTOR level, unsigned int levels) noexcept {
  std::uint64_t bytes = 0;
  for (; levels > 0; --levels) {
    bytes += array_bytes(level);
    level.Width = std::max<std::size_t>(level.Width / 2, 1);
    level.Height = level.Height == 0 ? 0 : std::max<std::size_t>(level.Height / 2, 1);
    level.Depth = level.Depth == 0 ? 0 : std::max<std::size_t>(level.Depth / 2, 1);
  }
  return bytes;
}

template <typename Handle>
std::uint64_t key(Handle handle) noexcept {
  return reinterpret_cast<std::uint64_t>(handle);
}

struct pool_request {
  std::size_t bytes;
  CUmemoryPool pool;
  CUstream stream;
  void const* caller;
};

// Its memory is on the pool's device, whichever stream asks; one that is none, or whose context is not there,
// is for the driver to refuse before any limit does.
template <typename Real>
CUresult pool_allocation(hook which, CUdeviceptr* result, pool_request const& asked, Real&& real) noexcept {
  driver::request request{.bytes = asked.bytes,
                          .stream_ordered = true,
                          .hook = static_cast<std::uint16_t>(which),
                          .called = program_call(static_cast<std::uint16_t>(which)),
                          .stream = asked.stream,
                          .caller = asked.caller};
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real();
  if (is_default(asked.stream)) request.context = current_context();
  if (result != nullptr && asked.bytes != 0 && (!is_default(asked.stream) || request.context != nullptr)) {
    auto const outcome = route::allocate_from_pool(asked.pool, request, result);
    if (outcome.served()) return counted(which, asked.bytes, outcome.code, true);
  }
  upstream::note_driver_keeps_memory();
  int const device = memory_pools::instance().device_of(asked.pool);
  bool const elsewhere = device == memory_pools::host || result == nullptr ||
                         (stream_order::any_captures() && is_graph_node(asked.stream));
  if (elsewhere) {
    if (device == memory_pools::host) request.kind = driver::memory_kind::host;
    auto const refused = [&] { return refusal_of(request, current_owner().device); };
    return counted(which, asked.bytes, with_room(refused, real));
  }
  owner_of_memory owner{device, nullptr, asked.caller};
  if (device < 0 || route::may_have_limits(device)) {
    owner = owner_by_stream(asked.stream, asked.caller);
    if (owner.device >= 0 && device >= 0) owner.device = device;
  }
  return counted(which, asked.bytes, pass_allocation(request, result, owner, real));
}

template <typename Real>
CUresult array_creation(hook which, CUarray* result, std::uint64_t bytes, void const* caller,
                        Real&& real) noexcept {
  return taking(which, bytes, program_caller(caller), real,
                [&](reservation& reserved) { reserved.commit(observed_kind::array, key(*result), bytes); });
}

// What `begin` takes off before the real call is put back where that fails.
template <typename Begin, typename Real>
CUresult leaving_memory(hook which, std::uint64_t bytes, Begin&& begin, Real&& real) noexcept {
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real();
  stats::memory_move const move;
  virtual_memory::step const taken = begin();
  CUresult const code = real();
  if (code == CUDA_SUCCESS) {
    virtual_memory::has_left(taken);
  } else {
    virtual_memory::instance().undo(taken);
  }
  return counted(which, bytes, code);
}

// A call that is about memory which a program mapped itself. A block of ours is an allocation of another
// kind, whatever its segment is: libraries tell them apart by this.
template <typename Real>
CUresult of_mapping(CUdeviceptr address, Real&& real) noexcept {
  return route::is_in_segment(address) ? CUDA_ERROR_INVALID_VALUE : real();
}

bool is_on_device(CUmemAllocationProp const* property) noexcept {
  return property != nullptr && property->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

}  // namespace

extern "C" {

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* result, size_t bytes, CUmemoryPool pool, CUstream stream) {
  return pool_allocation(
      hook::cuMemAllocFromPoolAsync, result,
      {bytes, pool, named_stream(stream, false), program_caller(__builtin_return_address(0))},
      [&] { return GPUMEM_REAL(cuMemAllocFromPoolAsync)(result, bytes, pool, stream); });
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* result, size_t bytes, CUmemoryPool pool, CUstream stream) {
  return pool_allocation(
      hook::cuMemAllocFromPoolAsync_ptsz, result,
      {bytes, pool, named_stream(stream, true), program_caller(__builtin_return_address(0))},
      [&] { return GPUMEM_REAL(cuMemAllocFromPoolAsync_ptsz)(result, bytes, pool, stream); });
}

CUresult cuArrayCreate_v2(CUarray* result, CUDA_ARRAY_DESCRIPTOR const* array) {
  CUDA_ARRAY3D_DESCRIPTOR flat{};
  if (array != nullptr) {
    flat = {.Width = array->Width,
            .Height = array->Height,
            .Depth = 0,
            .Format = array->Format,
            .NumChannels = array->NumChannels,
            .Flags = 0};
  }
  return array_creation(hook::cuArrayCreate_v2, result, array_bytes(flat), __builtin_return_address(0),
                        [&] { return GPUMEM_REAL(cuArrayCreate_v2)(result, array); });
}

CUresult cuArray3DCreate_v2(CUarray* result, CUDA_ARRAY3D_DESCRIPTOR const* array) {
  return array_creation(hook::cuArray3DCreate_v2, result, array == nullptr ? 0 : array_bytes(*array),
                        __builtin_return_address(0),
                        [&] { return GPUMEM_REAL(cuArray3DCreate_v2)(result, array); });
}

CUresult cuArrayDestroy(CUarray array) {
  return giving_back(hook::cuArrayDestroy, observed_kind::array, key(array),
                     [&] { return GPUMEM_REAL(cuArrayDestroy)(array); });
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* result, CUDA_ARRAY3D_DESCRIPTOR const* array,
                                unsigned int levels) {
  std::uint64_t const bytes = array == nullptr ? 0 : mipmapped_bytes(*array, levels);
  auto const real = [&] { return GPUMEM_REAL(cuMipmappedArrayCreate)(result, array, levels); };
  return taking(
      hook::cuMipmappedArrayCreate, bytes, program_caller(__builtin_return_address(0)), real,
      [&](reservation& reserved) { reserved.commit(observed_kind::mipmapped_array, key(*result), bytes); });
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  return giving_back(hook::cuMipmappedArrayDestroy, observed_kind::mipmapped_array, key(array),
                     [&] { return GPUMEM_REAL(cuMipmappedArrayDestroy)(array); });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, CUmemAllocationProp const* property,
                     unsigned long long flags) {
  auto const real = [&] { return GPUMEM_REAL(cuMemCreate)(handle, bytes, property, flags); };
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real();
  if (!is_on_device(property)) return counted(hook::cuMemCreate, bytes, real());
  void const* const caller = program_caller(__builtin_return_address(0));
  int const device = property->location.id;
  reservation reserved(hook::cuMemCreate, bytes, {device, nullptr, caller});
  auto const asked = [&] {
    return route::refused_request{.bytes = bytes,
                                  .hook = static_cast<std::uint16_t>(hook::cuMemCreate),
                                  .device = device,
                                  .caller = caller};
  };
  CUresult const code = reserved ? with_room(asked, real) : reserved.code();
  if (code == CUDA_SUCCESS) {
    route::observed_bytes const taken = reserved.taken(bytes);
    if (virtual_memory::instance().created(*handle, taken)) reserved.commit(taken);
  }
  return counted(hook::cuMemCreate, bytes, code);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return leaving_memory(
      hook::cuMemRelease, 0, [&] { return virtual_memory::instance().releases(handle); },
      [&] { return GPUMEM_REAL(cuMemRelease)(handle); });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  auto const at = reinterpret_cast<CUdeviceptr>(address);
  return observe(
      hook::cuMemRetainAllocationHandle, 0,
      [&] {
        return of_mapping(at, [&] { return GPUMEM_REAL(cuMemRetainAllocationHandle)(handle, address); });
      },
      [&] { virtual_memory::instance().retained(*handle, at); });
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  return observe_with_own_room(
      hook::cuMemMap, bytes, [&] { return GPUMEM_REAL(cuMemMap)(address, bytes, offset, handle, flags); },
      [&] { virtual_memory::instance().mapped(address, bytes, handle); });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return leaving_memory(
      hook::cuMemUnmap, bytes, [&] { return virtual_memory::instance().unmaps(address, bytes); },
      [&] { return of_mapping(address, [&] { return GPUMEM_REAL(cuMemUnmap)(address, bytes); }); });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, CUmemAccessDesc const* access, size_t count) {
  return observe_with_own_room(
      hook::cuMemSetAccess, 0,
      [&] {
        return of_mapping(address,
                          [&] { return GPUMEM_REAL(cuMemSetAccess)(address, bytes, access, count); });
      },
      nothing);
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, CUmemPoolProps const* properties) {
  return observe(
      hook::cuMemPoolCreate, 0, [&] { return GPUMEM_REAL(cuMemPoolCreate)(pool, properties); },
      [&] {
        memory_pools::instance().made(*pool, *properties);
        route::pool_made(*pool, *properties);
        route::destroy_kept();
      });
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return GPUMEM_REAL(cuMemPoolDestroy)(pool);
  one_by_one const turn;
  // Before the call: after it the handle may be another pool's. One that could not be destroyed, as beside a
  // capture, is what it was.
  int const device = memory_pools::instance().ends(pool);
  route::pool_ending const was = route::pool_ends(pool);
  std::optional<CUresult> const kept = route::keep_ended(pool, was);
  CUresult const code = kept ? *kept : GPUMEM_REAL(cuMemPoolDestroy)(pool);
  if (code != CUDA_SUCCESS) {
    memory_pools::instance().survived(pool, device);
    route::pool_survived(pool, was);
  } else {
    route::destroy_kept();
  }
  return counted(hook::cuMemPoolDestroy, 0, code);
}

CUresult cuMemHostRegister_v2(void* address, size_t bytes, unsigned int flags) {
  return observe_with_own_room(
      hook::cuMemHostRegister_v2, bytes,
      [&] { return GPUMEM_REAL(cuMemHostRegister_v2)(address, bytes, flags); }, nothing);
}

CUresult cuMemHostUnregister(void* address) {
  return observe(
      hook::cuMemHostUnregister, 0, [&] { return GPUMEM_REAL(cuMemHostUnregister)(address); }, nothing);
}

// The memory is another process's: calls are counted, bytes are not.
CUresult cuIpcOpenMemHandle(CUdeviceptr* result, CUipcMemHandle handle, unsigned int flags) {
  return observe_with_own_room(
      hook::cuIpcOpenMemHandle, 0, [&] { return GPUMEM_REAL(cuIpcOpenMemHandle)(result, handle, flags); },
      nothing);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* result, CUipcMemHandle handle, unsigned int flags) {
  return observe_with_own_room(
      hook::cuIpcOpenMemHandle_v2, 0,
      [&] { return GPUMEM_REAL(cuIpcOpenMemHandle_v2)(result, handle, flags); }, nothing);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return observe(
      hook::cuIpcCloseMemHandle, 0, [&] { return GPUMEM_REAL(cuIpcCloseMemHandle)(address); }, nothing);
}
}
