// Stream capture: begin, end, ask, and the thread's interaction mode.
// Any thread; the mode belongs to the calling thread.
// A spoilt capture still has to be ended: the end gives 901 and no graph.
#include "entry.hpp"

using namespace simulated;

namespace {

CUresult begin(machine& m, CUstream on, CUstreamCaptureMode mode) {
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  if (where->is_legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (where->capturing) return CUDA_ERROR_ILLEGAL_STATE;
  auto made = std::make_shared<capture>();
  made->id = m.next_id_++;
  made->origin = where;
  made->mode = mode;
  made->thread = this_thread().id;
  made->result = std::make_unique<graph>();
  where->capturing = made;
  m.captures_.insert(made);
  return CUDA_SUCCESS;
}

CUresult information(machine& m, CUstream on, CUstreamCaptureStatus* status, cuuint64_t* id) {
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (where->is_legacy) SIMULATED_TRY(m.implicit_sync(*where->owner));
  *status = !where->capturing               ? CU_STREAM_CAPTURE_STATUS_NONE
            : where->capturing->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                            : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (id != nullptr && where->capturing) *id = where->capturing->id;
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API cuStreamBeginCapture_v2(CUstream on, CUstreamCaptureMode mode) {
  SIMULATED_CALL(after_init);
  return begin(m, on, mode);
}
SIMULATED_PER_THREAD(cuStreamBeginCapture_v2, _ptsz, (CUstream on, CUstreamCaptureMode mode), (on, mode))

SIMULATED_API cuStreamEndCapture(CUstream on, CUgraph* out) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!where->capturing) return CUDA_ERROR_ILLEGAL_STATE;
  std::shared_ptr<capture> const ended = where->capturing;
  *out = nullptr;
  if (ended->origin != where) {
    ended->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  m.end_capture(ended);
  if (ended->mode != CU_STREAM_CAPTURE_MODE_RELAXED && ended->thread != this_thread().id)
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;  // and it is over (measured)
  if (ended->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!ended->joined.empty()) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  graph* const made = ended->result.release();
  m.graphs_.insert(made);
  *out = reinterpret_cast<CUgraph>(made);
  return CUDA_SUCCESS;
}
SIMULATED_PER_THREAD(cuStreamEndCapture, _ptsz, (CUstream on, CUgraph* out), (on, out))

SIMULATED_API cuStreamIsCapturing(CUstream on, CUstreamCaptureStatus* status) {
  SIMULATED_CALL(after_init);
  return information(m, on, status, nullptr);
}
SIMULATED_PER_THREAD(cuStreamIsCapturing, _ptsz, (CUstream on, CUstreamCaptureStatus* status), (on, status))

SIMULATED_API cuStreamGetCaptureInfo_v2(CUstream on, CUstreamCaptureStatus* status, cuuint64_t* id,
                                        CUgraph* graph_out, CUgraphNode const** dependencies, size_t* count) {
  SIMULATED_CALL(after_init);
  if (graph_out != nullptr) *graph_out = nullptr;
  if (dependencies != nullptr) *dependencies = nullptr;
  if (count != nullptr) *count = 0;
  return information(m, on, status, id);
}
SIMULATED_PER_THREAD(cuStreamGetCaptureInfo_v2, _ptsz,
                     (CUstream on, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph_out,
                      CUgraphNode const** dependencies, size_t* count),
                     (on, status, id, graph_out, dependencies, count))

SIMULATED_API cuStreamGetCaptureInfo_v3(CUstream on, CUstreamCaptureStatus* status, cuuint64_t* id,
                                        CUgraph* graph_out, CUgraphNode const** dependencies,
                                        CUgraphEdgeData const** edges, size_t* count) {
  SIMULATED_CALL(after_init);
  if (graph_out != nullptr) *graph_out = nullptr;
  if (dependencies != nullptr) *dependencies = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return information(m, on, status, id);
}
SIMULATED_PER_THREAD(cuStreamGetCaptureInfo_v3, _ptsz,
                     (CUstream on, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph_out,
                      CUgraphNode const** dependencies, CUgraphEdgeData const** edges, size_t* count),
                     (on, status, id, graph_out, dependencies, edges, count))

SIMULATED_API cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  SIMULATED_CALL(any_time);
  if (mode == nullptr || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, this_thread().mode);
  return CUDA_SUCCESS;
}
