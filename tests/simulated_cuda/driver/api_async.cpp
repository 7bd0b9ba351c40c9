// Stream-ordered memory: cuMemAllocAsync, cuMemFreeAsync and memory pools.
// Any thread.
// On a capturing stream both are graph nodes: the address is fixed now, the memory comes and goes with each
// launch.
#include "entry.hpp"

using namespace simulated;

namespace {

CUmemoryPool handle(pool* of) {
  return reinterpret_cast<CUmemoryPool>(of);
}

CUresult capture_allocation(machine& m, stream& on, CUdeviceptr* out, std::uint64_t bytes) {
  if (on.capturing->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  auto made = std::make_shared<graph_memory>();
  made->address = m.memory_.allocate(on.owner, block_kind::graph, bytes);
  if (made->address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  made->bytes = bytes;
  m.memory_.at(made->address)->of_graph = made.get();
  machine::add_node(on, {{}, made, nullptr});
  *out = made->address;
  return CUDA_SUCCESS;
}

CUresult allocate(machine& m, pool* from, stream& on, CUdeviceptr* out, std::uint64_t bytes) {
  if (on.capturing && on.capturing->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;  // measured
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 0;
  if (bytes == 0) return CUDA_SUCCESS;
  if (on.capturing) return capture_allocation(m, on, out, bytes);
  m.memory_.collect(m.now_, m.host_);
  m.schedule(on, {"cuMemAllocAsync", 0, {}, {}, {}, false});
  std::uint64_t const address = m.memory_.allocate(*from, on, bytes, m.now_);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  return CUDA_SUCCESS;
}

CUresult find_pool(machine& m, CUmemoryPool which, pool*& result) {
  result = reinterpret_cast<pool*>(which);
  return m.memory_.pools.count(result) != 0 && !result->destroyed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult give_pool(machine& m, CUmemoryPool* out, int device, std::vector<pool*> const& of) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= m.device_count()) return CUDA_ERROR_INVALID_DEVICE;
  *out = handle(of[static_cast<std::size_t>(device)]);
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream on) {
  if (out != nullptr) *out = 0;
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  SIMULATED_TRY(m.unsafe_call(*where));
  return allocate(m, m.memory_.current_pool[static_cast<std::size_t>(where->owner->device)], *where, out,
                  bytes);
}
SIMULATED_PER_THREAD(cuMemAllocAsync, _ptsz, (CUdeviceptr * out, size_t bytes, CUstream on), (out, bytes, on))

SIMULATED_API cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool from, CUstream on) {
  if (out != nullptr) *out = 0;
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  pool* found = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  SIMULATED_TRY(m.unsafe_call(*where));
  SIMULATED_TRY(find_pool(m, from, found));
  return allocate(m, found, *where, out, bytes);
}
SIMULATED_PER_THREAD(cuMemAllocFromPoolAsync, _ptsz,
                     (CUdeviceptr * out, size_t bytes, CUmemoryPool from, CUstream on),
                     (out, bytes, from, on))

SIMULATED_API cuMemFreeAsync(CUdeviceptr address, CUstream on) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  SIMULATED_TRY(m.unsafe_call(*where));
  if (where->capturing && where->capturing->invalidated)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;  // before the address is looked at (measured)
  if (address == 0) return CUDA_SUCCESS;
  block* const found = m.memory_.at(address);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (where->capturing) {
    for (graph_node const& node : where->capturing->result->nodes) {
      if (!node.allocates || node.allocates->address != address) continue;
      auto const gone = node.allocates;
      machine::add_node(*where, {{}, nullptr, gone});
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  }
  block const gone = *found;
  switch (gone.kind) {
    case block_kind::pooled:
      m.schedule(*where, {"cuMemFreeAsync", 0, {}, {}, {}, false});
      m.memory_.erase(address);
      m.memory_.release(gone, where, where->tail, m.now_);
      return CUDA_SUCCESS;
    case block_kind::managed:
      return CUDA_ERROR_NOT_SUPPORTED;  // measured
    case block_kind::device:
      m.schedule(*where, {"cuMemFreeAsync", 0, {}, {}, {}, false});
      m.memory_.erase(address);
      m.memory_.release_after(gone, where->tail);
      return CUDA_SUCCESS;
    case block_kind::graph:
      if (!gone.of_graph->live) return CUDA_ERROR_INVALID_VALUE;
      m.freed(*gone.of_graph, where->tail);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}
SIMULATED_PER_THREAD(cuMemFreeAsync, _ptsz, (CUdeviceptr address, CUstream on), (address, on))

SIMULATED_API cuMemPoolCreate(CUmemoryPool* out, CUmemPoolProps const* properties) {
  SIMULATED_CALL(after_init);
  SIMULATED_TRY(m.unsafe_call());
  if (out == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  constexpr unsigned known_handles = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_WIN32 |
                                     CU_MEM_HANDLE_TYPE_WIN32_KMT | CU_MEM_HANDLE_TYPE_FABRIC;
  // Measured: asked_rules pools.
  if (properties->allocType == CU_MEM_ALLOCATION_TYPE_INVALID ||
      properties->location.type == CU_MEM_LOCATION_TYPE_INVALID ||
      (properties->handleTypes & ~known_handles) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  int const device = properties->location.id;
  if (device < 0 || device >= m.device_count()) return CUDA_ERROR_INVALID_VALUE;  // measured
  auto* const made = handle_records<pool>::make();
  made->device = device;
  made->maximum = properties->maxSize;
  m.memory_.pools.insert(made);
  *out = handle(made);
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemPoolDestroy(CUmemoryPool which) {
  SIMULATED_CALL(after_init);
  SIMULATED_TRY(m.unsafe_call());
  pool* gone = nullptr;
  SIMULATED_TRY(find_pool(m, which, gone));
  if (gone->is_default) return CUDA_ERROR_INVALID_VALUE;
  auto const device = static_cast<std::size_t>(gone->device);
  if (m.memory_.current_pool[device] == gone) m.memory_.current_pool[device] = m.memory_.default_pool[device];
  gone->destroyed = true;
  m.memory_.drop_if_over(*gone, m.now_, m.host_);
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemPoolTrimTo(CUmemoryPool which, size_t keep) {
  SIMULATED_CALL(after_init);
  SIMULATED_TRY(m.unsafe_call());
  pool* found = nullptr;
  SIMULATED_TRY(find_pool(m, which, found));
  m.memory_.trim(*found, keep, m.now_, m.host_);
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemPoolSetAttribute(CUmemoryPool which, CUmemPool_attribute attribute, void* value) {
  SIMULATED_CALL(after_init);
  SIMULATED_TRY(m.unsafe_call());  // measured
  pool* found = nullptr;
  SIMULATED_TRY(find_pool(m, which, found));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      found->threshold = *static_cast<cuuint64_t*>(value);
      break;
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      found->reuse_follow = *static_cast<int*>(value) != 0;  // measured, as of the next two
      break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      found->reuse_opportunistic = *static_cast<int*>(value) != 0;
      break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      found->reuse_internal = *static_cast<int*>(value) != 0;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      if (*static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      found->reserved_high = found->reserved;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      found->used_high = found->told_used;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemPoolGetAttribute(CUmemoryPool which, CUmemPool_attribute attribute, void* value) {
  SIMULATED_CALL(after_init);
  SIMULATED_TRY(m.unsafe_call());
  pool* found = nullptr;
  SIMULATED_TRY(find_pool(m, which, found));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto& wide = *static_cast<cuuint64_t*>(value);
  auto& narrow = *static_cast<int*>(value);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      wide = found->threshold;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      wide = found->reserved;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      wide = found->reserved_high;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      wide = found->told_used;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      wide = found->used_high;
      break;
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      narrow = found->reuse_follow;
      break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      narrow = found->reuse_opportunistic;
      break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      narrow = found->reuse_internal;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemPoolSetAccess(CUmemoryPool which, CUmemAccessDesc const* access, size_t count) {
  SIMULATED_CALL(after_init);
  SIMULATED_TRY(m.unsafe_call());  // before the arguments (measured)
  pool* found = nullptr;
  SIMULATED_TRY(find_pool(m, which, found));
  if (access == nullptr) return CUDA_ERROR_INVALID_VALUE;  // also of none; measured, as what follows
  for (size_t i = 0; i < count; ++i) {
    int const device = access[i].location.id;
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ) return CUDA_ERROR_NOT_SUPPORTED;
    if (device < 0 || device >= m.device_count()) return CUDA_ERROR_INVALID_DEVICE;
    if (device == found->device && access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_INVALID_DEVICE;
    if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) {
      found->peers.erase(device);
    } else {
      found->peers.insert(device);
    }
  }
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool which, CUmemLocation* location) {
  SIMULATED_CALL(after_init);
  SIMULATED_TRY(m.unsafe_call());  // measured
  pool* found = nullptr;
  SIMULATED_TRY(find_pool(m, which, found));
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->id < 0 || location->id >= m.device_count()) return CUDA_ERROR_INVALID_VALUE;  // measured
  // Of the managed one nothing is told, though each device has it (measured).
  *flags = !found->managed && found->open_to(location->id) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                           : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

SIMULATED_API cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  SIMULATED_CALL(after_init);
  return give_pool(m, out, device, m.memory_.default_pool);
}

// Of devices alone: pools of the host are not modelled. That a managed pool needs no more than CUDA 13 and a
// device with concurrent access to managed memory is NVIDIA's word; nothing of such pools was measured
// (README.md).
SIMULATED_API cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  SIMULATED_CALL(after_init);
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  bool const managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;
  if (!managed && type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (location->id < 0 || location->id >= m.device_count()) return CUDA_ERROR_INVALID_VALUE;  // measured
  return give_pool(m, out, location->id, managed ? m.memory_.managed_pool : m.memory_.default_pool);
}

SIMULATED_API cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
  SIMULATED_CALL(after_init);
  return give_pool(m, out, device, m.memory_.current_pool);
}

SIMULATED_API cuDeviceSetMemPool(CUdevice device, CUmemoryPool which) {
  SIMULATED_CALL(after_init);
  SIMULATED_TRY(m.unsafe_call());  // measured
  pool* found = nullptr;
  SIMULATED_TRY(find_pool(m, which, found));
  if (device < 0 || device >= m.device_count() || found->device != device || found->managed)
    return CUDA_ERROR_INVALID_VALUE;
  m.memory_.current_pool[static_cast<std::size_t>(device)] = found;
  return CUDA_SUCCESS;
}
