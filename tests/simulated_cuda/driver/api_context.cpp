// Contexts: create, destroy, the thread's stack of them, primary contexts, synchronise, peers.
// Any thread; the stack belongs to the calling thread.
// A destroyed context's record stays, so that its handle is recognised as dead rather than taken for another,
// unless handles are to be given out again, as a driver does (GPUMEM_SIMULATED_HANDLES_AGAIN).
#include <utility>

#include "entry.hpp"

using namespace simulated;

namespace {

CUcontext handle(context* of) {
  return reinterpret_cast<CUcontext>(of);
}

CUresult push(context* of, bool by_push = false) {
  thread_state& mine = this_thread();
  if (by_push) ++of->pushed;
  mine.deepen() = {of, by_push};
  return CUDA_SUCCESS;
}

void leave_top(thread_state& mine) {
  if (std::exchange(mine.at(mine.depth - 1).pushed, false)) --mine.current()->pushed;
}

void drop_top(thread_state& mine) {
  leave_top(mine);
  mine.shrink();
}

CUresult create(machine& m, CUcontext* out, unsigned flags, CUdevice device) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= m.device_count()) return CUDA_ERROR_INVALID_DEVICE;
  SIMULATED_TRY(machine::lost());
  context* const made = m.new_context(device);
  made->flags = flags;
  if (!m.start(*made)) {
    m.ended_.push_back(made);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = handle(made);
  return push(made);
}

CUresult synchronise(machine& m, context& of) {
  SIMULATED_TRY(m.disturbs(of));
  SIMULATED_TRY(machine::fault_of(&of));
  m.host_wait(m.all_work(of));
  m.trim_pools();
  return machine::fault_of(&of);
}

void reset_primary(machine& m, context& gone) {
  while (gone.ending) m.let_others_in();
  if (gone.alive) m.finish(gone);
  // Memory of pools outlives the context (measured: driver 580, default and explicit pools). The program's
  // own blocks in it may not, where a preloaded library made them out of larger ones: the checker forgets
  // them.
  for (pool const* each : m.memory_.pools) {
    if (each->device != gone.device) continue;
    for (auto const& [base, bytes] : each->segments) {
      m.checker_.forget(base, bytes, [&m](std::uint64_t address, std::uint64_t size) {
        block const* const whole = m.memory_.at(address);
        return whole == nullptr || whole->kind != block_kind::pooled || whole->bytes != size;
      });
    }
  }
  m.let_others_in();
}

CUresult primary_reset(machine& m, CUdevice device) {
  if (device < 0 || device >= m.device_count()) return CUDA_ERROR_INVALID_DEVICE;
  reset_primary(m, m.primary(device));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult simulated::primary_release(machine& m, CUdevice device) {
  if (device < 0 || device >= m.device_count()) return CUDA_ERROR_INVALID_DEVICE;
  context& of = m.primary(device);
  while (of.ending) m.let_others_in();
  if (of.references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--of.references == 0) reset_primary(m, of);
  return CUDA_SUCCESS;
}

CUresult simulated::primary_retain(machine& m, CUdevice device, context*& result) {
  if (device < 0 || device >= m.device_count()) return CUDA_ERROR_INVALID_DEVICE;
  SIMULATED_TRY(machine::lost());
  result = &m.primary(device);
  while (result->ending) m.let_others_in();
  if (!result->alive && !m.start(*result)) return CUDA_ERROR_OUT_OF_MEMORY;
  ++result->references;
  return CUDA_SUCCESS;
}

SIMULATED_API cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device) {
  SIMULATED_CALL(after_init);
  return create(m, out, flags, device);
}

SIMULATED_API cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int, unsigned flags, CUdevice device) {
  SIMULATED_CALL(after_init);
  return create(m, out, flags, device);
}

SIMULATED_API cuCtxCreate_v4(CUcontext* out, CUctxCreateParams*, unsigned flags, CUdevice device) {
  SIMULATED_CALL(after_init);
  return create(m, out, flags, device);
}

SIMULATED_API cuCtxDestroy_v2(CUcontext which) {
  SIMULATED_CALL(after_init);
  context* gone = nullptr;
  if (which == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIMULATED_TRY(m.resolve(which, gone));
  if (gone->primary || gone->ending) return CUDA_ERROR_INVALID_CONTEXT;
  // It waits for the work of other contexts of its device as well (measured).
  point all;
  for (context* each : m.contexts_) {
    if (each->alive && each->device == gone->device) all.join(m.all_work(*each));
  }
  m.host_wait(all);
  if (!gone->alive || gone->ending) return CUDA_ERROR_INVALID_CONTEXT;  // others were let in meanwhile
  m.finish(*gone);
  thread_state& mine = this_thread();
  if (mine.current() == gone) drop_top(mine);
  m.let_others_in();
  return CUDA_SUCCESS;
}

SIMULATED_API cuCtxPushCurrent_v2(CUcontext which) {
  SIMULATED_CALL(after_init);
  context* found = nullptr;
  if (which == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  CUresult const known = m.resolve(which, found);
  if (known != CUDA_SUCCESS) m.note_stale("cuCtxPushCurrent");
  SIMULATED_TRY(known);
  SIMULATED_TRY(push(found, true));
  // Another thread may come between this and the pop: now and then one does.
  static unsigned pushes = 0;
  if (++pushes % 8 == 0) m.let_others_in();
  return CUDA_SUCCESS;
}

SIMULATED_API cuCtxPopCurrent_v2(CUcontext* out) {
  SIMULATED_CALL(after_init);
  thread_state& mine = this_thread();
  if (mine.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = handle(mine.current());
  drop_top(mine);
  return CUDA_SUCCESS;
}

SIMULATED_API cuCtxSetCurrent(CUcontext which) {
  SIMULATED_CALL(after_init);
  thread_state& mine = this_thread();
  if (which == nullptr) {
    if (mine.depth > 0) drop_top(mine);
    return CUDA_SUCCESS;
  }
  context* found = nullptr;
  SIMULATED_TRY(m.resolve(which, found));
  if (mine.depth == 0) return push(found);
  leave_top(mine);
  mine.at(mine.depth - 1).of = found;
  return CUDA_SUCCESS;
}

SIMULATED_API cuCtxGetCurrent(CUcontext* out) {
  SIMULATED_CALL(after_init);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle(this_thread().current());
  return CUDA_SUCCESS;
}

// The current one, which may have ended: its device and flags are told all the same (measured: dead_context).
static CUresult current_or_ended(machine& m, context*& result) {
  CUresult const code = m.current(result);
  return code == CUDA_ERROR_CONTEXT_IS_DESTROYED ? CUDA_SUCCESS : code;
}

SIMULATED_API cuCtxGetDevice(CUdevice* device) {
  SIMULATED_CALL(after_init);
  context* of = nullptr;
  SIMULATED_TRY(current_or_ended(m, of));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = of->device;
  return CUDA_SUCCESS;
}

SIMULATED_API cuCtxGetDevice_v2(CUdevice* device, CUcontext which) {
  SIMULATED_CALL(after_init);
  context* of = nullptr;
  SIMULATED_TRY(m.resolve(which, of));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = of->device;
  return CUDA_SUCCESS;
}

SIMULATED_API cuCtxGetId(CUcontext which, unsigned long long* id) {
  SIMULATED_CALL(after_init);
  context* of = nullptr;
  SIMULATED_TRY(m.resolve(which, of));
  if (which == nullptr) SIMULATED_TRY(machine::fault_of(of));  // not of one that is named (measured)
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = of->id;
  return CUDA_SUCCESS;
}

SIMULATED_API cuCtxGetFlags(unsigned* flags) {
  SIMULATED_CALL(after_init);
  context* of = nullptr;
  SIMULATED_TRY(current_or_ended(m, of));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = of->flags;
  return CUDA_SUCCESS;
}

SIMULATED_API cuCtxGetApiVersion(CUcontext which, unsigned* version) {
  SIMULATED_CALL(after_init);
  context* of = nullptr;
  CUresult const code = m.resolve(which, of);
  if (code == CUDA_ERROR_CONTEXT_IS_DESTROYED) return CUDA_ERROR_INVALID_CONTEXT;  // measured: dead_context
  SIMULATED_TRY(code);
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}

SIMULATED_API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  SIMULATED_CALL(with_context);
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

SIMULATED_API cuCtxSynchronize() {
  SIMULATED_CALL(with_context);
  return synchronise(m, *here);
}

SIMULATED_API cuCtxSynchronize_v2(CUcontext which) {
  SIMULATED_CALL(after_init);
  context* of = nullptr;
  SIMULATED_TRY(m.resolve(which, of));
  return synchronise(m, *of);
}

SIMULATED_API cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  SIMULATED_CALL(after_init);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  context* retained = nullptr;
  SIMULATED_TRY(primary_retain(m, device, retained));
  *out = handle(retained);
  return CUDA_SUCCESS;
}

SIMULATED_API cuDevicePrimaryCtxRelease(CUdevice device) {
  SIMULATED_CALL(after_init);
  return primary_release(m, device);
}

SIMULATED_API cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  SIMULATED_CALL(after_init);
  return primary_release(m, device);
}

SIMULATED_API cuDevicePrimaryCtxReset(CUdevice device) {
  SIMULATED_CALL(after_init);
  return primary_reset(m, device);
}

SIMULATED_API cuDevicePrimaryCtxReset_v2(CUdevice device) {
  SIMULATED_CALL(after_init);
  return primary_reset(m, device);
}

SIMULATED_API cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  SIMULATED_CALL(after_init);
  if (device < 0 || device >= m.device_count()) return CUDA_ERROR_INVALID_DEVICE;
  if (flags != nullptr) *flags = m.primary(device).flags;
  if (active != nullptr) *active = m.primary(device).alive ? 1 : 0;
  return CUDA_SUCCESS;
}

SIMULATED_API cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  SIMULATED_CALL(after_init);
  if (device < 0 || device >= m.device_count()) return CUDA_ERROR_INVALID_DEVICE;
  m.primary(device).flags = flags;
  return CUDA_SUCCESS;
}

SIMULATED_API cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  SIMULATED_CALL(with_context);
  context* other = nullptr;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  SIMULATED_TRY(m.resolve(peer, other));
  if (other->device == here->device) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;  // measured
  return here->peers.insert(other).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

SIMULATED_API cuCtxDisablePeerAccess(CUcontext peer) {
  SIMULATED_CALL(with_context);
  SIMULATED_TRY(m.unsafe_call());  // measured; of enabling it, a context of the same device is said first
  context* other = nullptr;
  SIMULATED_TRY(m.resolve(peer, other));
  return here->peers.erase(other) != 0 ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
