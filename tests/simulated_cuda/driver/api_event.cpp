// Events, and the events of whole contexts.
// Any thread.
// A context event may not be recorded while any stream of the context captures: it fails and
// spoils the capture.
#include "entry.hpp"

using namespace simulated;

namespace {

CUresult record(machine& m, CUevent which, CUstream on) {
  stream* where = nullptr;
  event* what = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  SIMULATED_TRY(m.resolve(which, what));
  if (where->capturing && where->capturing->invalidated)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;  // measured
  if (what->owner != where->owner->home()) return CUDA_ERROR_INVALID_HANDLE;
  if (where->capturing) {
    if ((what->flags & CU_EVENT_INTERPROCESS) != 0) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // measured
    what->in_capture = where->capturing;
    what->recorded_on = where;
    what->recorded = true;
    return CUDA_SUCCESS;
  }
  SIMULATED_TRY(m.submit(*where, {"event record", 0, {}, {}, {}, false}));
  what->in_capture = nullptr;
  what->recorded = true;
  what->when = where->tail;
  return CUDA_SUCCESS;
}

CUresult not_captured(event const& of) {
  if (!of.in_capture) return CUDA_SUCCESS;
  of.in_capture->invalidated = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult observe(machine& m, CUevent which, event*& what) {
  SIMULATED_TRY(m.unsafe_call());
  SIMULATED_TRY(m.resolve(which, what));
  return not_captured(*what);
}

CUresult elapsed(machine& m, float* milliseconds, CUevent from, CUevent to) {
  event *first = nullptr, *last = nullptr;
  SIMULATED_TRY(m.resolve(from, first));
  SIMULATED_TRY(m.resolve(to, last));
  unsigned const flags = first->flags | last->flags;
  // Beside a capture as well, which it does not disturb (measured: asked_rules captured_oddly).
  if (milliseconds == nullptr || first->owner != last->owner || (flags & CU_EVENT_DISABLE_TIMING) != 0)
    return CUDA_ERROR_INVALID_HANDLE;
  for (event* each : {first, last}) SIMULATED_TRY(not_captured(*each));
  if (!first->recorded || !last->recorded) return CUDA_ERROR_INVALID_HANDLE;
  if (!m.host_query(first->when) || !m.host_query(last->when)) return CUDA_ERROR_NOT_READY;
  *milliseconds =
      static_cast<float>((static_cast<double>(last->when.end) - static_cast<double>(first->when.end)) / 1e6);
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API cuEventCreate(CUevent* out, unsigned flags) {
  SIMULATED_CALL(with_context);
  if (out == nullptr || flags > (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto* const made = handle_records<event>::make();
  made->owner = here->home();
  made->flags = flags;
  made->owner->events.insert(made);
  m.events_.insert(made);
  *out = reinterpret_cast<CUevent>(made);
  return CUDA_SUCCESS;
}

SIMULATED_API cuEventDestroy_v2(CUevent which) {
  SIMULATED_CALL(after_init);
  event* gone = nullptr;
  SIMULATED_TRY(m.resolve(which, gone));
  gone->owner->events.erase(gone);
  m.events_.erase(gone);
  handle_records<event>::end(gone);
  return CUDA_SUCCESS;
}

SIMULATED_API cuEventRecord(CUevent which, CUstream on) {
  SIMULATED_CALL(after_init);
  return record(m, which, on);
}
SIMULATED_PER_THREAD(cuEventRecord, _ptsz, (CUevent which, CUstream on), (which, on))

SIMULATED_API cuEventRecordWithFlags(CUevent which, CUstream on, unsigned flags) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  SIMULATED_TRY(m.resolve(on, where));
  if (flags != CU_EVENT_RECORD_EXTERNAL) return record(m, which, on);
  if (!where->capturing) return CUDA_ERROR_ILLEGAL_STATE;           // measured
  return m.submit(*where, {"event record", 0, {}, {}, {}, false});  // a node, unlike others (measured)
}
SIMULATED_PER_THREAD(cuEventRecordWithFlags, _ptsz, (CUevent which, CUstream on, unsigned flags),
                     (which, on, flags))

SIMULATED_API cuEventQuery(CUevent which) {
  SIMULATED_CALL(after_init);
  event* what = nullptr;
  SIMULATED_TRY(observe(m, which, what));
  return m.host_query(what->when) ? machine::fault_of(what->owner) : CUDA_ERROR_NOT_READY;
}

SIMULATED_API cuEventSynchronize(CUevent which) {
  SIMULATED_CALL(after_init);
  event* what = nullptr;
  SIMULATED_TRY(observe(m, which, what));
  context* const owner = what->owner;
  m.host_wait(what->when);
  m.trim_pools();
  return machine::fault_of(owner);
}

SIMULATED_API cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  SIMULATED_CALL(after_init);
  return elapsed(m, milliseconds, from, to);
}

SIMULATED_API cuEventElapsedTime_v2(float* milliseconds, CUevent from, CUevent to) {
  SIMULATED_CALL(after_init);
  return elapsed(m, milliseconds, from, to);
}

SIMULATED_API cuCtxRecordEvent(CUcontext which_context, CUevent which) {
  SIMULATED_CALL(after_init);
  context* of = nullptr;
  event* what = nullptr;
  CUresult const known = m.resolve(which_context, of);
  if (known != CUDA_SUCCESS) m.note_stale("cuCtxRecordEvent");
  SIMULATED_TRY(known);
  SIMULATED_TRY(m.resolve(which, what));
  if (what->owner != of->home()) return CUDA_ERROR_INVALID_HANDLE;
  SIMULATED_TRY(machine::fault_of(of));
  SIMULATED_TRY(m.disturbs(*of));
  what->in_capture = nullptr;
  what->recorded = true;
  what->when = m.all_work(*of);
  what->when.end = std::max(what->when.end, m.now_);
  return CUDA_SUCCESS;
}

SIMULATED_API cuCtxWaitEvent(CUcontext which_context, CUevent which) {
  SIMULATED_CALL(after_init);
  context* of = nullptr;
  event* what = nullptr;
  SIMULATED_TRY(m.resolve(which_context, of));
  SIMULATED_TRY(m.resolve(which, what));
  SIMULATED_TRY(m.disturbs(*of));
  for (stream* each : of->streams) m.wait(*each, what->when);
  return CUDA_SUCCESS;
}
