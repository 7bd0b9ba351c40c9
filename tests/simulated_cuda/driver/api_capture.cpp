// Stream capture: begin, end, ask, and the thread's interaction mode.
// Any thread; the mode belongs to the calling thread.
// A spoilt capture still has to be ended: the end gives 901 and no graph.
#include "entry.hpp"

using namespace simulated;

namespace {

CUresult begin(machine& m, CUstream on, CUstreamCaptureMode mode, capture const& kind = {}) {
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
  made->into = kind.into;
  made->anew = kind.anew;
  made->to_cig = kind.to_cig;
  where->capturing = made;
  m.captures_.insert(made);
  return CUDA_SUCCESS;
}

CUresult begin_into(machine& m, CUstream on, CUstreamCaptureMode mode, CUgraph into, bool anew) {
  capture kind;
  kind.into = reinterpret_cast<graph*>(into);
  kind.anew = anew;
  if (m.graphs_.count(kind.into) == 0) return CUDA_ERROR_INVALID_VALUE;
  return begin(m, on, mode, kind);
}

// The graph that the program gets: its own, where it named one.
CUgraph result_of(machine& m, capture& ended) {
  graph* const made = ended.into != nullptr ? ended.into : ended.result.release();
  if (ended.into != nullptr) {
    auto& nodes = ended.result->nodes;
    if (ended.anew) made->nodes.clear();
    made->nodes.insert(made->nodes.end(), nodes.begin(), nodes.end());
  }
  m.graphs_.insert(made);
  return reinterpret_cast<CUgraph>(made);
}

// `to_cig`: by the call that ends such a one, which gives no graph.
CUresult end(machine& m, CUstream on, bool to_cig, CUgraph* out) {
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  if (!where->capturing || where->capturing->to_cig != to_cig) return CUDA_ERROR_ILLEGAL_STATE;
  std::shared_ptr<capture> const ended = where->capturing;
  *out = nullptr;
  if (ended->origin != where) {
    ended->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  m.end_capture(ended);
  if (ended->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;  // also in another thread (measured)
  if (ended->mode != CU_STREAM_CAPTURE_MODE_RELAXED && ended->thread != this_thread().id)
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;  // and it is over (measured)
  if (!ended->joined.empty()) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (ended->anew && ended->into->nodes.size() != ended->result->nodes.size())
    return static_cast<CUresult>(918);  // CUDA_ERROR_GRAPH_RECAPTURE_FAILURE
  if (!to_cig) *out = result_of(m, *ended);
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
  bool const active = where->capturing && !where->capturing->invalidated;
  if (id != nullptr && active) *id = where->capturing->id;  // of others nothing else is told (measured)
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API cuStreamBeginCapture_v2(CUstream on, CUstreamCaptureMode mode) {
  SIMULATED_CALL(after_init);
  return begin(m, on, mode);
}
SIMULATED_PER_THREAD(cuStreamBeginCapture_v2, _ptsz, (CUstream on, CUstreamCaptureMode mode), (on, mode))

// The nodes that the first captured node comes after say nothing here: those of a graph run in their order.
SIMULATED_API cuStreamBeginCaptureToGraph(CUstream on, CUgraph into, CUgraphNode const*,
                                          CUgraphEdgeData const*, size_t, CUstreamCaptureMode mode) {
  SIMULATED_CALL(after_init);
  return begin_into(m, on, mode, into, false);
}
SIMULATED_PER_THREAD(cuStreamBeginCaptureToGraph, _ptsz,
                     (CUstream on, CUgraph into, CUgraphNode const* nodes, CUgraphEdgeData const* edges,
                      size_t count, CUstreamCaptureMode mode),
                     (on, into, nodes, edges, count, mode))

SIMULATED_API cuStreamBeginRecaptureToGraph(CUstream on, CUstreamCaptureMode mode, CUgraph into,
                                            CUgraphRecaptureCallback, void*) {
  SIMULATED_CALL(after_init);
  return begin_into(m, on, mode, into, true);
}
SIMULATED_PER_THREAD(cuStreamBeginRecaptureToGraph, _ptsz,
                     (CUstream on, CUstreamCaptureMode mode, CUgraph into, CUgraphRecaptureCallback callback,
                      void* data),
                     (on, mode, into, callback, data))

// Any parameters will do: no graphics API is asked.
SIMULATED_API cuStreamBeginCaptureToCig(CUstream on, CUstreamCigCaptureParams*) {
  SIMULATED_CALL(after_init);
  capture kind;
  kind.to_cig = true;
  return begin(m, on, CU_STREAM_CAPTURE_MODE_RELAXED, kind);
}
SIMULATED_PER_THREAD(cuStreamBeginCaptureToCig, _ptsz, (CUstream on, CUstreamCigCaptureParams* parameters),
                     (on, parameters))

SIMULATED_API cuStreamEndCaptureToCig(CUstream on) {
  SIMULATED_CALL(after_init);
  CUgraph none = nullptr;
  return end(m, on, true, &none);
}
SIMULATED_PER_THREAD(cuStreamEndCaptureToCig, _ptsz, (CUstream on), (on))

SIMULATED_API cuStreamEndCapture(CUstream on, CUgraph* out) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return end(m, on, false, out);
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
