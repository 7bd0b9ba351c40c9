// Plain device memory: allocate, free, ask about an address.
// Any thread.
// Freeing a plain block waits for all work of its context, as the real driver does; that is what makes its
// bytes safe to hand out again.
#include "entry.hpp"

using namespace simulated;

namespace {

// A refused allocation leaves 0 behind (measured: driver 580, in every form).
CUresult allocate(machine& m, context& here, block_kind kind, CUdeviceptr* out, std::uint64_t bytes) {
  *out = 0;
  m.memory_.collect(m.now_, m.host_);
  std::uint64_t address = m.memory_.allocate(&here, kind, bytes);
  if (address == 0) {  // what the pools keep idle goes first
    for (pool* each : m.memory_.pools) {
      if (each->device == here.device) m.memory_.trim(*each, 0, m.now_, m.host_);
    }
    address = m.memory_.allocate(&here, kind, bytes);
  }
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API cuMemGetInfo_v2(size_t* available, size_t* total) {
  SIMULATED_CALL(with_context);
  m.memory_.collect(m.now_, m.host_);
  space const& device = m.memory_.of(here->device);
  if (available != nullptr) *available = device.capacity() - device.used();
  if (total != nullptr) *total = device.capacity();
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  if (out != nullptr) *out = 0;  // whatever the refusal (measured)
  SIMULATED_CALL(unsafe_in_capture);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 0;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return allocate(m, *here, block_kind::device, out, bytes);
}

SIMULATED_API cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                                 unsigned element) {
  SIMULATED_CALL(after_init);
  context* here_now = nullptr;
  CUresult const code = m.current(here_now);
  bool const serves = code == CUDA_SUCCESS && machine::fault_of(here_now) == CUDA_SUCCESS;
  if (code != CUDA_ERROR_INVALID_CONTEXT && !serves && pitch != nullptr)
    *pitch = 0;  // measured: dead_context
  SIMULATED_TRY(code);
  SIMULATED_TRY(machine::fault_of(here_now));
  if (out == nullptr || pitch == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 0;
  *pitch = 0;
  bool const known_element = element == 4 || element == 8 || element == 16;
  if (width == 0 || height == 0 || !known_element) return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + 511) / 512 * 512;  // told before the rest is looked at; 0 where it overflows
  std::size_t bytes = 0;
  if (*pitch == 0 || __builtin_mul_overflow(*pitch, height, &bytes)) return CUDA_ERROR_INVALID_VALUE;
  SIMULATED_TRY(m.unsafe_call());
  return allocate(m, *here_now, block_kind::device, out, bytes);
}

SIMULATED_API cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned flags) {
  SIMULATED_CALL(after_init);  // the arguments first (measured)
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  context* here_now = nullptr;
  SIMULATED_TRY(m.current(here_now));
  SIMULATED_TRY(machine::fault_of(here_now));
  SIMULATED_TRY(m.unsafe_call());
  return allocate(m, *here_now, block_kind::managed, out, bytes);
}

// A block is freed from any context and from none, and what is no block is refused alike (measured); under a
// context that has ended the driver says that first, also of null and of memory of the host (dead_context),
// and of a block of a context that lives (measured of a managed one).
SIMULATED_API cuMemFree_v2(CUdeviceptr address) {
  SIMULATED_CALL(after_init);
  block* const found = m.memory_.at(address);
  SIMULATED_TRY(machine::under_ended());
  SIMULATED_TRY(machine::fault_of(found != nullptr ? found->owner : this_thread().current()));
  SIMULATED_TRY(m.unsafe_call());
  if (address == 0) return CUDA_SUCCESS;
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  block const gone = *found;
  switch (gone.kind) {
    case block_kind::device:
    case block_kind::managed:
      m.memory_.erase(address);  // before the wait: its context may end meanwhile, and frees what it finds
      m.host_wait(m.all_work(*gone.owner));
      if (gone.apart) m.run_all();  // work of other contexts would find nothing where it lay
      m.memory_.release(gone);
      return CUDA_SUCCESS;
    case block_kind::pooled:  // no barrier; its bytes wait for all that is submitted now
      if (gone.orphaned) m.checker_.forget(gone.base, gone.span);
      m.memory_.erase(address);
      m.memory_.release(gone, nullptr, m.all_work(*gone.owner), m.now_);
      return CUDA_SUCCESS;
    case block_kind::graph:
      if (!gone.of_graph->live) return CUDA_ERROR_INVALID_VALUE;
      m.host_wait(m.all_work(*gone.owner));
      m.freed(*gone.of_graph, {});
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

SIMULATED_API cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  SIMULATED_CALL(after_init);
  if (base != nullptr) *base = 0;  // whatever is said then (measured: dead_context)
  if (bytes != nullptr) *bytes = 0;
  context* here_now = nullptr;
  SIMULATED_TRY(m.current(here_now));
  SIMULATED_TRY(machine::fault_of(here_now));
  block const* const found = m.memory_.find(address);
  if (base == nullptr && bytes == nullptr) return CUDA_SUCCESS;  // nothing was asked (measured)
  // Written in any case (measured; with what was not looked at).
  if (base != nullptr) *base = found == nullptr ? 0 : found->base;
  if (bytes != nullptr) *bytes = found == nullptr ? 0 : found->bytes;
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  return CUDA_SUCCESS;
}

static CUresult attribute_of(machine& m, void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  block const* const found = m.memory_.find(address);
  bool const on_host =
      found != nullptr && (found->kind == block_kind::host || found->kind == block_kind::registered);
  auto const give = [data](auto value) {
    *static_cast<decltype(value)*>(data) = value;
    return CUDA_SUCCESS;
  };
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {  // no context owns these (measured: 0, and null)
      bool const nobodys = found->kind == block_kind::mapping || found->kind == block_kind::pooled ||
                           found->kind == block_kind::graph;
      return give(nobodys ? nullptr : reinterpret_cast<CUcontext>(found->owner));
    }
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: {  // of all the one that needs a context (measured)
      context* current = nullptr;
      SIMULATED_TRY(m.current(current));
      return give(address);
    }
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!on_host && !is_managed(*found)) return CUDA_ERROR_INVALID_VALUE;
      return give(reinterpret_cast<void*>(address));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give(static_cast<unsigned long long>(found->id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(is_managed(*found) ? 1u : 0u);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(found->device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:  // of a pool's memory 0 as well (measured)
      return give(found->kind == block_kind::device ? 1u : 0u);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(found->base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(static_cast<std::size_t>(found->bytes));
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(1u);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return give(reinterpret_cast<CUmemoryPool>(found->from));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give(found->sync_memops ? 1u : 0u);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:  // of a pool's memory (measured)
      return give(std::uint64_t{0});
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:  // of what cuMemAllocPitch made (measured)
      return give(static_cast<unsigned>(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE));
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

SIMULATED_API cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  SIMULATED_CALL(after_init);  // no context (measured)
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return attribute_of(m, data, attribute, address);
}

SIMULATED_API cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                     CUdeviceptr address) {
  SIMULATED_CALL(after_init);  // no context (measured)
  if (count == 0 || attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {  // what does not apply is zero; it is no error here
    if (attribute_of(m, data[i], attributes[i], address) == CUDA_SUCCESS) continue;
    if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
        attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED || attributes[i] == CU_POINTER_ATTRIBUTE_MAPPED) {
      *static_cast<unsigned*>(data[i]) = 0;
    } else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
      *static_cast<int*>(data[i]) = -2;
    } else if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE ||
               attributes[i] == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE ||
               attributes[i] == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
      *static_cast<unsigned*>(data[i]) = 0;
    } else {
      *static_cast<void**>(data[i]) = nullptr;
    }
  }
  return CUDA_SUCCESS;
}

// Of the program's allocation, whatever shares a driver block with it; virtual memory has none. Needs no
// context (both measured).
SIMULATED_API cuPointerSetAttribute(void const* value, CUpointer_attribute attribute, CUdeviceptr address) {
  SIMULATED_CALL(after_init);
  SIMULATED_TRY(m.unsafe_call());  // measured
  block* const found = m.memory_.find(address);
  if (value == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (machine::under_ended() != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;  // measured: dead_context
  if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
  if (found->kind == block_kind::mapping) return CUDA_ERROR_NOT_SUPPORTED;
  found->sync_memops = *static_cast<unsigned const*>(value) != 0;
  return CUDA_SUCCESS;
}
