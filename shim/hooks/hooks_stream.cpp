// Hooks of what decides when memory may serve again: captures, streams, and synchronisations by the
// program. Called by the program on any thread. Nothing is altered; core is told before a capture begins
// and after it ended, before a stream goes and after one came.
#include <pthread.h>

#include <optional>

#include "core/driver/question.hpp"
#include "core/stream_order/stream_turn.hpp"
#include "shim/hooks/dispatch.hpp"

using namespace gpumem;
using namespace gpumem::shim;

namespace {

bool capturing(CUstream stream) noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream == CU_STREAM_LEGACY) return false;  // cannot be captured, and the question may be an error
  return driver::asked(driver::real.cuStreamIsCapturing, stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// The per-thread default stream has one handle in all threads; captures of it are told apart by the thread.
// It goes with its thread, and so does its capture (measured): nobody else could end it.
CUstream origin_of(CUstream stream) noexcept {
  if (stream != CU_STREAM_PER_THREAD) return stream;
  auto* const mine = reinterpret_cast<CUstream>(&this_thread);
  static pthread_key_t key;
  static bool const made =
      pthread_key_create(&key, [](void* of) { route::thread_ended(static_cast<CUstream>(of)); }) == 0;
  if (made) pthread_setspecific(key, mine);
  return mine;
}

// Told before: a context event recorded between the real begin and the news would invalidate the capture.
template <typename Real>
CUresult begin_capture(hook which, CUstream stream, bool per_thread, CUstreamCaptureMode mode,
                       Real&& real) noexcept {
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real();
  CUstream const named = named_stream(stream, per_thread);
  CUcontext const context = context_of(named);
  if (context == nullptr) return counted(which, 0, real());
  CUstream const origin = origin_of(named);
  stream_order::stream_turn const turn(origin);
  route::capture_begins(context, origin, mode);
  CUresult const code = real();
  if (code != CUDA_SUCCESS) route::capture_ended(context, origin);
  return counted(which, 0, code);
}

// An end that fails may have ended the capture (it was invalidated, or another thread's) or not (of a stream
// that only joined): the stream itself tells. It is not asked after one that succeeded.
template <typename Real>
CUresult end_capture(hook which, CUstream stream, bool per_thread, Real&& real) noexcept {
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real();
  CUstream const named = named_stream(stream, per_thread);
  CUstream const origin = origin_of(named);
  stream_order::stream_turn const turn(origin);
  CUresult const code = real();
  CUcontext const context = is_default(named) ? current_context() : nullptr;
  if (is_default(named) && context == nullptr) return counted(which, 0, code);
  if (code == CUDA_SUCCESS || !capturing(named)) route::capture_ended(context, origin);
  return counted(which, 0, code);
}

// A wait for an event of a capture draws the stream in, and with it its context, which may be another one
// than that of the capture. Told before, as the begin of a capture is. Not counted: programs wait all the
// time.
template <typename Real>
CUresult wait_for_event(CUstream stream, bool per_thread, Real&& real) noexcept {
  if (!route::captures_run()) [[likely]]
    return real();
  base::uncancelled const held;
  hook_scope const scope;
  CUstream const named = named_stream(stream, per_thread);
  CUcontext const context = scope && named != CU_STREAM_LEGACY ? context_of(named) : nullptr;
  if (context == nullptr) return real();
  route::join_begins(context);
  CUresult const code = real();
  route::join_ended(context, capturing(named));
  return code;
}

// A stream takes memory of the device for itself: hundreds of them some MiB.
template <typename Real>
CUresult create_stream(hook which, CUstream* stream, Real&& real) noexcept {
  return observe_with_own_room(which, 0, real, [&] { route::stream_created(context_of(*stream), *stream); });
}

// The default streams cannot be destroyed; a failure leaves the stream alive, which then counts as a new one.
// Of a stream whose capture was spoilt the driver does not tell the context (measured: 901, 580.159).
template <typename Real>
CUresult destroy_stream(hook which, CUstream stream, Real&& real) noexcept {
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope || is_default(stream)) return real();
  CUcontext const context = context_of(stream);
  if (context == nullptr && !route::may_be_spoilt()) return real();
  std::optional<stream_order::stream_turn> turn;
  if (route::captures_run()) turn.emplace(stream);
  route::stream_destroyed(context, stream);
  CUresult const code = real();
  if (turn && code == CUDA_SUCCESS) route::capture_ended(context, stream);
  if (code != CUDA_SUCCESS) route::stream_created(context, stream);
  return counted(which, 0, code);
}

template <typename Real>
CUresult synchronize(hook which, CUcontext context, Real&& real) noexcept {
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real();
  if (context == nullptr) context = current_context();
  if (context == nullptr) return counted(which, 0, real());
  std::uint64_t const mark = route::synchronize_begins(context);
  CUresult const code = real();
  if (code == CUDA_SUCCESS) route::synchronize_done(context, mark);
  return counted(which, 0, code);
}

}  // namespace

extern "C" {

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  return wait_for_event(stream, false, [&] { return GPUMEM_REAL(cuStreamWaitEvent)(stream, event, flags); });
}

CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags) {
  return wait_for_event(stream, true,
                        [&] { return GPUMEM_REAL(cuStreamWaitEvent_ptsz)(stream, event, flags); });
}

CUresult cuStreamBeginCapture(CUstream stream) {
  return begin_capture(hook::cuStreamBeginCapture, stream, false, CU_STREAM_CAPTURE_MODE_GLOBAL,
                       [&] { return GPUMEM_REAL(cuStreamBeginCapture)(stream); });
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
  return begin_capture(hook::cuStreamBeginCapture_ptsz, stream, true, CU_STREAM_CAPTURE_MODE_GLOBAL,
                       [&] { return GPUMEM_REAL(cuStreamBeginCapture_ptsz)(stream); });
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return begin_capture(hook::cuStreamBeginCapture_v2, stream, false, mode,
                       [&] { return GPUMEM_REAL(cuStreamBeginCapture_v2)(stream, mode); });
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  return begin_capture(hook::cuStreamBeginCapture_v2_ptsz, stream, true, mode,
                       [&] { return GPUMEM_REAL(cuStreamBeginCapture_v2_ptsz)(stream, mode); });
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, CUgraphNode const* nodes,
                                     CUgraphEdgeData const* edges, size_t count, CUstreamCaptureMode mode) {
  return begin_capture(hook::cuStreamBeginCaptureToGraph, stream, false, mode, [&] {
    return GPUMEM_REAL(cuStreamBeginCaptureToGraph)(stream, graph, nodes, edges, count, mode);
  });
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, CUgraphNode const* nodes,
                                          CUgraphEdgeData const* edges, size_t count,
                                          CUstreamCaptureMode mode) {
  return begin_capture(hook::cuStreamBeginCaptureToGraph_ptsz, stream, true, mode, [&] {
    return GPUMEM_REAL(cuStreamBeginCaptureToGraph_ptsz)(stream, graph, nodes, edges, count, mode);
  });
}

// Since 13.3. The graph's own nodes are captured anew; the capture is one like any other.
CUresult cuStreamBeginRecaptureToGraph(CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
                                       CUgraphRecaptureCallback callback, void* data) {
  return begin_capture(hook::cuStreamBeginRecaptureToGraph, stream, false, mode, [&] {
    return GPUMEM_REAL(cuStreamBeginRecaptureToGraph)(stream, mode, graph, callback, data);
  });
}

CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
                                            CUgraphRecaptureCallback callback, void* data) {
  return begin_capture(hook::cuStreamBeginRecaptureToGraph_ptsz, stream, true, mode, [&] {
    return GPUMEM_REAL(cuStreamBeginRecaptureToGraph_ptsz)(stream, mode, graph, callback, data);
  });
}

// Since 13.1: into a command list of a graphics API, by the rules of the relaxed mode (cuda.h).
CUresult cuStreamBeginCaptureToCig(CUstream stream, CUstreamCigCaptureParams* parameters) {
  return begin_capture(hook::cuStreamBeginCaptureToCig, stream, false, CU_STREAM_CAPTURE_MODE_RELAXED,
                       [&] { return GPUMEM_REAL(cuStreamBeginCaptureToCig)(stream, parameters); });
}

CUresult cuStreamBeginCaptureToCig_ptsz(CUstream stream, CUstreamCigCaptureParams* parameters) {
  return begin_capture(hook::cuStreamBeginCaptureToCig_ptsz, stream, true, CU_STREAM_CAPTURE_MODE_RELAXED,
                       [&] { return GPUMEM_REAL(cuStreamBeginCaptureToCig_ptsz)(stream, parameters); });
}

CUresult cuStreamEndCaptureToCig(CUstream stream) {
  return end_capture(hook::cuStreamEndCaptureToCig, stream, false,
                     [&] { return GPUMEM_REAL(cuStreamEndCaptureToCig)(stream); });
}

CUresult cuStreamEndCaptureToCig_ptsz(CUstream stream) {
  return end_capture(hook::cuStreamEndCaptureToCig_ptsz, stream, true,
                     [&] { return GPUMEM_REAL(cuStreamEndCaptureToCig_ptsz)(stream); });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return end_capture(hook::cuStreamEndCapture, stream, false,
                     [&] { return GPUMEM_REAL(cuStreamEndCapture)(stream, graph); });
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  return end_capture(hook::cuStreamEndCapture_ptsz, stream, true,
                     [&] { return GPUMEM_REAL(cuStreamEndCapture_ptsz)(stream, graph); });
}

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  return create_stream(hook::cuStreamCreate, stream,
                       [&] { return GPUMEM_REAL(cuStreamCreate)(stream, flags); });
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  return create_stream(hook::cuStreamCreateWithPriority, stream,
                       [&] { return GPUMEM_REAL(cuStreamCreateWithPriority)(stream, flags, priority); });
}

CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned int flags, int priority) {
  return create_stream(hook::cuGreenCtxStreamCreate, stream,
                       [&] { return GPUMEM_REAL(cuGreenCtxStreamCreate)(stream, context, flags, priority); });
}

CUresult cuStreamDestroy(CUstream stream) {
  return destroy_stream(hook::cuStreamDestroy, stream, [&] { return GPUMEM_REAL(cuStreamDestroy)(stream); });
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  return destroy_stream(hook::cuStreamDestroy_v2, stream,
                        [&] { return GPUMEM_REAL(cuStreamDestroy_v2)(stream); });
}

CUresult cuCtxSynchronize() {
  return synchronize(hook::cuCtxSynchronize, nullptr, [] { return GPUMEM_REAL(cuCtxSynchronize)(); });
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  return synchronize(hook::cuCtxSynchronize_v2, context,
                     [&] { return GPUMEM_REAL(cuCtxSynchronize_v2)(context); });
}
}
