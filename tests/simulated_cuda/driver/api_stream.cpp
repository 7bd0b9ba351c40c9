// Streams: create, destroy, ask, synchronise, wait for an event, host functions.
// Any thread.
// A destroyed stream's work goes on; its handle may come back for another stream.
#include "entry.hpp"

using namespace simulated;

namespace {

// The flags are looked at before the context (measured).
CUresult create(machine& m, CUstream* out, unsigned flags, int priority) {
  if (out == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  context* here = nullptr;
  SIMULATED_TRY(m.current(here));
  SIMULATED_TRY(machine::fault_of(here));  // measured: dead_context faulted
  stream* const made = m.make_own_stream(*here, flags, std::clamp(priority, -5, 0));
  if (made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUstream>(made);
  return CUDA_SUCCESS;
}

// What a wait or query by the host on a capturing stream does to the capture.
CUresult host_observes(machine& m, stream& on) {
  if (on.capturing) {  // and no other capture of the thread (measured: simulated_answers.py)
    on.capturing->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  SIMULATED_TRY(m.unsafe_call());
  return on.is_legacy ? m.implicit_sync(*on.owner) : CUDA_SUCCESS;
}

// Of a stream whose capture was spoilt that is all that is told (measured of its priority and its context).
CUresult not_spoilt(stream const& on) {
  bool const spoilt = on.capturing && on.capturing->invalidated;
  return spoilt ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

// What a host wait on the stream waits for: the legacy stream stands for all blocking ones.
point end_of(stream& on) {
  point until = on.tail;
  if (on.is_legacy) {
    for (stream* other : on.owner->streams) {
      if (other->blocking()) until.join(other->tail);
    }
  }
  return until;
}

}  // namespace

SIMULATED_API cuStreamCreate(CUstream* out, unsigned flags) {
  SIMULATED_CALL(after_init);
  return create(m, out, flags, 0);
}

SIMULATED_API cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  SIMULATED_CALL(after_init);
  return create(m, out, flags, priority);
}

SIMULATED_API cuStreamDestroy_v2(CUstream which) {
  SIMULATED_CALL(after_init);
  auto* const gone = reinterpret_cast<stream*>(which);
  if (which == CU_STREAM_LEGACY || which == CU_STREAM_PER_THREAD || m.streams_.count(gone) == 0) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  // Its unfinished work still belongs to the context: whatever waits for "all work" must wait for it.
  m.leave_work(*gone);
  m.destroy_stream(gone);
  return CUDA_SUCCESS;
}

SIMULATED_API cuStreamGetPriority(CUstream on, int* priority) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  SIMULATED_TRY(not_spoilt(*where));
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = where->priority;
  return CUDA_SUCCESS;
}
SIMULATED_PER_THREAD(cuStreamGetPriority, _ptsz, (CUstream on, int* priority), (on, priority))

SIMULATED_API cuStreamGetFlags(CUstream on, unsigned* flags) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  if (where->capturing) {  // in whichever thread; of another stream it is answered (measured)
    where->capturing->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = where->flags;
  return CUDA_SUCCESS;
}
SIMULATED_PER_THREAD(cuStreamGetFlags, _ptsz, (CUstream on, unsigned* flags), (on, flags))

SIMULATED_API cuStreamGetId(CUstream on, unsigned long long* id) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (where->capturing) {  // the real driver takes it for an unsafe question (measured)
    where->capturing->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  *id = where->id;
  return CUDA_SUCCESS;
}
SIMULATED_PER_THREAD(cuStreamGetId, _ptsz, (CUstream on, unsigned long long* id), (on, id))

SIMULATED_API cuStreamGetDevice(CUstream on, CUdevice* device) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  SIMULATED_TRY(not_spoilt(*where));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = where->owner->device;
  return CUDA_SUCCESS;
}
SIMULATED_PER_THREAD(cuStreamGetDevice, _ptsz, (CUstream on, CUdevice* device), (on, device))

SIMULATED_API cuStreamGetCtx(CUstream on, CUcontext* out) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  SIMULATED_TRY(not_spoilt(*where));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUcontext>(where->owner);
  return CUDA_SUCCESS;
}
SIMULATED_PER_THREAD(cuStreamGetCtx, _ptsz, (CUstream on, CUcontext* out), (on, out))

SIMULATED_API cuStreamGetCtx_v2(CUstream on, CUcontext* out, CUgreenCtx* green) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  SIMULATED_TRY(not_spoilt(*where));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUcontext>(where->owner->home());
  if (green != nullptr) {
    *green = where->owner->green_of != nullptr ? reinterpret_cast<CUgreenCtx>(where->owner) : nullptr;
  }
  return CUDA_SUCCESS;
}
SIMULATED_PER_THREAD(cuStreamGetCtx_v2, _ptsz, (CUstream on, CUcontext* out, CUgreenCtx* green),
                     (on, out, green))

SIMULATED_API cuStreamSynchronize(CUstream on) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  SIMULATED_TRY(host_observes(m, *where));
  context* const owner = where->owner;
  m.host_wait(end_of(*where));
  m.trim_pools();
  return machine::fault_of(owner);
}
SIMULATED_PER_THREAD(cuStreamSynchronize, _ptsz, (CUstream on), (on))

SIMULATED_API cuStreamQuery(CUstream on) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  SIMULATED_TRY(host_observes(m, *where));
  return m.host_query(end_of(*where)) ? machine::fault_of(where->owner) : CUDA_ERROR_NOT_READY;
}
SIMULATED_PER_THREAD(cuStreamQuery, _ptsz, (CUstream on), (on))

SIMULATED_API cuStreamWaitEvent(CUstream on, CUevent which, unsigned flags) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  event* what = nullptr;
  if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  SIMULATED_TRY(m.resolve(on, where));
  SIMULATED_TRY(m.resolve(which, what));
  SIMULATED_TRY(not_spoilt(*where));  // whatever is waited for (measured)
  if (what->in_capture) {             // pulls the stream into that capture, or joins it back
    capture& into = *what->in_capture;
    if (into.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (where->capturing && where->capturing != what->in_capture) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (where->is_legacy) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (where == into.origin) {
      into.joined.erase(what->recorded_on);
    } else {
      if (!where->capturing) into.members.insert(where);
      where->capturing = what->in_capture;
      into.joined.insert(where);
      into.joined.erase(what->recorded_on);
    }
    return CUDA_SUCCESS;
  }
  if (where->capturing) {
    if (!what->recorded) return CUDA_SUCCESS;
    where->capturing->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (where->is_legacy) SIMULATED_TRY(m.implicit_sync(*where->owner));
  m.wait(*where, what->when);
  return CUDA_SUCCESS;
}
SIMULATED_PER_THREAD(cuStreamWaitEvent, _ptsz, (CUstream on, CUevent which, unsigned flags),
                     (on, which, flags))

SIMULATED_API cuLaunchHostFunc(CUstream on, CUhostFn function, void* argument) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIMULATED_TRY(m.resolve(on, where));
  operation work;
  work.name = "host function";
  work.host_function = [function, argument] { function(argument); };
  return m.submit(*where, std::move(work));
}
SIMULATED_PER_THREAD(cuLaunchHostFunc, _ptsz, (CUstream on, CUhostFn function, void* argument),
                     (on, function, argument))

SIMULATED_API cuStreamAddCallback(CUstream on, CUstreamCallback function, void* argument, unsigned flags) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  if (function == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  SIMULATED_TRY(m.resolve(on, where));
  if (where->capturing) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  operation work;
  work.name = "callback";
  work.host_function = [on, function, argument] { function(on, CUDA_SUCCESS, argument); };
  return m.submit(*where, std::move(work));
}
SIMULATED_PER_THREAD(cuStreamAddCallback, _ptsz,
                     (CUstream on, CUstreamCallback function, void* argument, unsigned flags),
                     (on, function, argument, flags))
