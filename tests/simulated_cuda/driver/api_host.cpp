// Pinned and registered host memory.
// Any thread.
// Freeing pinned memory waits for all work of its context; of another one it may still be used
// (machine::schedule).
#include <pthread.h>
#include <sys/mman.h>

#include "entry.hpp"

using namespace simulated;

namespace {

constexpr std::uint64_t most_pinned = 1ull << 40;  // of a host that has less; nothing is touched here

CUresult allocate(machine& m, context& here, void** out, std::uint64_t bytes, unsigned flags) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  if (bytes == 0) return CUDA_SUCCESS;
  if (bytes > most_pinned) return CUDA_ERROR_OUT_OF_MEMORY;
  std::uint64_t const span = (bytes + 4095) / 4096 * 4096;
  void* const memory =
      mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  block made;
  made.kind = block_kind::host;
  made.base = reinterpret_cast<std::uint64_t>(memory);
  made.bytes = bytes;
  made.span = span;
  made.owner = here.home();
  made.device = here.device;
  made.flags = flags | CU_MEMHOSTALLOC_DEVICEMAP;  // as all of it with unified addresses (measured)
  m.memory_.insert(made);
  *out = memory;
  return CUDA_SUCCESS;
}

bool on_host(block const* found) {
  return found != nullptr && (found->kind == block_kind::host || found->kind == block_kind::registered);
}

}  // namespace

// Both end a cancelled thread, as the driver's do (580.159).
SIMULATED_API cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  pthread_testcancel();
  SIMULATED_CALL(unsafe_in_capture);
  if (flags > (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return allocate(m, *here, out, bytes, flags);
}

SIMULATED_API cuMemAllocHost_v2(void** out, size_t bytes) {
  pthread_testcancel();
  SIMULATED_CALL(unsafe_in_capture);
  return allocate(m, *here, out, bytes, 0);
}

// Needs no context, as cuMemFree (measured).
SIMULATED_API cuMemFreeHost(void* memory) {
  SIMULATED_CALL(after_init);
  SIMULATED_TRY(machine::under_ended());  // measured: dead_context
  if (context* const here_now = this_thread().current(); here_now != nullptr)
    SIMULATED_TRY(machine::fault_of(here_now));  // measured: dead_context faulted
  SIMULATED_TRY(m.unsafe_call());
  if (memory == nullptr) return CUDA_SUCCESS;
  auto const find = [&] {
    block const* const found = m.memory_.at(reinterpret_cast<std::uint64_t>(memory));
    return found != nullptr && found->kind == block_kind::host ? found : nullptr;
  };
  block const* found = find();
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIMULATED_TRY(machine::fault_of(found->owner));
  m.host_wait(m.all_work(*found->owner));                                 // of its context alone (measured)
  if (found = find(); found == nullptr) return CUDA_ERROR_INVALID_VALUE;  // another thread came in meanwhile
  block const gone = *found;
  m.memory_.erase(gone.base);
  munmap(memory, gone.span);
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* memory, unsigned flags) {
  SIMULATED_CALL(with_context);
  auto const address = reinterpret_cast<std::uint64_t>(memory);
  block const* const found = m.memory_.find(address);
  bool const known = on_host(found) || (found != nullptr && found->kind == block_kind::mapping);  // measured
  if (out == nullptr || flags != 0 || !known) return CUDA_ERROR_INVALID_VALUE;
  *out = address;
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemHostGetFlags(unsigned* flags, void* memory) {
  SIMULATED_CALL(with_context);
  block const* const found = m.memory_.find(reinterpret_cast<std::uint64_t>(memory));
  bool const managed = found != nullptr && found->kind == block_kind::managed;
  if (flags == nullptr || !(on_host(found) || managed)) return CUDA_ERROR_INVALID_VALUE;
  *flags = managed ? CU_MEMHOSTALLOC_DEVICEMAP : found->flags;  // measured
  return CUDA_SUCCESS;
}

constexpr unsigned most_flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

static CUresult register_memory(machine& m, context* here, void* memory, std::size_t bytes, unsigned flags) {
  auto const address = reinterpret_cast<std::uint64_t>(memory);
  // Flags, and a range around what is registered: measured (asked_rules registered).
  if (memory == nullptr || bytes == 0 || flags > most_flags) return CUDA_ERROR_INVALID_VALUE;
  for (block const* const there : {m.memory_.find(address), m.memory_.last_before(address + bytes)}) {
    if (there == nullptr || there->base + there->span <= address) continue;
    bool const registered = there->kind == block_kind::registered;
    return registered ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_ERROR_INVALID_VALUE;  // measured
  }
  if (!m.takes(here->device, m.mapping_bytes_)) return CUDA_ERROR_OUT_OF_MEMORY;
  block made;
  made.kind = block_kind::registered;
  made.base = address;
  made.bytes = made.span = bytes;
  made.owner = here;
  made.device = here->device;
  made.flags = flags | CU_MEMHOSTREGISTER_DEVICEMAP;  // measured
  m.memory_.insert(made);
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemHostRegister(void* memory, size_t bytes, unsigned flags) {
  SIMULATED_CALL(unsafe_in_capture);
  return register_memory(m, here, memory, bytes, flags);
}
SIMULATED_API cuMemHostRegister_v2(void* memory, size_t bytes, unsigned flags) {
  SIMULATED_CALL(unsafe_in_capture);
  return register_memory(m, here, memory, bytes, flags);
}

// Needs no context (measured).
SIMULATED_API cuMemHostUnregister(void* memory) {
  SIMULATED_CALL(after_init);
  SIMULATED_TRY(machine::under_ended());  // measured
  SIMULATED_TRY(m.unsafe_call());
  auto const address = reinterpret_cast<std::uint64_t>(memory);
  block const* const found = m.memory_.at(address);
  block const* const around = m.memory_.find(address);
  if (around != nullptr && around != found) return CUDA_ERROR_INVALID_VALUE;  // its middle (measured)
  if (around != nullptr && around->kind != block_kind::registered)
    return CUDA_ERROR_INVALID_VALUE;  // measured of the begin of a pool's block
  if (found == nullptr || found->kind != block_kind::registered) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  m.run_all();
  m.memory_.of(found->device).uncharge(m.mapping_bytes_);
  m.memory_.erase(address);
  return CUDA_SUCCESS;
}
