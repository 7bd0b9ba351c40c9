// See session.hpp. Here: captures begin and end, streams of all contexts join them, graphs are launched.
#include <algorithm>

#include "tests/integration/random/transcript/session.hpp"

namespace transcript {

void session::begin_capture() {
  if (capturing_.size() > 1) return;
  queue const on = some_stream();
  auto const mode = static_cast<CUstreamCaptureMode>(below(3));
  CUresult const code =
      said(cuStreamBeginCapture(on.handle, mode), "cuStreamBeginCapture %s, %u", on.name.c_str(), mode);
  if (code == CUDA_SUCCESS) capture_began(on);
}

void session::end_capture() {
  if (capturing_.empty() && !one_in(6)) return;
  queue const on = capturing_.empty() || one_in(6)
                       ? some_stream()
                       : capturing_[below(static_cast<unsigned>(capturing_.size()))].origin;
  CUgraph graph = nullptr;
  cuuint64_t const id = capture_of(on.handle);
  CUresult const code = said(cuStreamEndCapture(on.handle, &graph), "cuStreamEndCapture %s", on.name.c_str());
  if (id == 0) return;
  // Whatever the code was: is it over?
  if (code != CUDA_SUCCESS && capture_of(on.handle) == id) return;
  std::set<std::string> const touched = touched_in(id);
  capture_ended(id, graph);
  if (graph == nullptr) return;
  std::size_t count = 0;
  said(cuGraphGetNodes(graph, nullptr, &count), "cuGraphGetNodes");
  say("  %zu nodes", count);
  graphs_.push_back({fresh('g'), graph, nullptr, current(), touched});
}

// As libraries do it: an event of the capture, waited for by another stream, works there and comes back; now
// and then that stream is destroyed while it is still part of the capture, or never comes back.
void session::fork_and_join() {
  if (capturing_.empty()) return;
  queue const origin = capturing_[below(static_cast<unsigned>(capturing_.size()))].origin;
  queue const other = some_stream();
  CUevent fork = nullptr, join = nullptr;
  CUcontext const before = current();
  if (origin.context != nullptr) cuCtxSetCurrent(origin.context);
  CUresult code = cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING);
  if (other.context != nullptr) cuCtxSetCurrent(other.context);
  code = code != CUDA_SUCCESS ? code : cuEventCreate(&join, CU_EVENT_DISABLE_TIMING);
  if (code == CUDA_SUCCESS) {
    said(cuEventRecord(fork, origin.handle), "cuEventRecord on %s, to be joined", origin.name.c_str());
    said(cuStreamWaitEvent(other.handle, fork, 0), "cuStreamWaitEvent %s", other.name.c_str());
    CUdeviceptr inside = 0;
    said(cuMemAllocAsync(&inside, 4096, other.handle), "cuMemAllocAsync on %s, joined", other.name.c_str());
    if (inside != 0) {
      said(cuMemsetD8Async(inside, 1, 4096, other.handle), "cuMemsetD8Async there");
      said(cuMemFreeAsync(inside, other.handle), "cuMemFreeAsync there");
    }
    if (!one_in(5)) {
      said(cuEventRecord(join, other.handle), "cuEventRecord on %s", other.name.c_str());
      said(cuStreamWaitEvent(origin.handle, join, 0), "cuStreamWaitEvent %s", origin.name.c_str());
    }
    bool const is_origin = std::any_of(capturing_.begin(), capturing_.end(), [&](running const& each) {
      return each.origin.handle == other.handle;
    });
    auto const mine = std::find_if(streams_.begin(), streams_.end(),
                                   [&](queue const& each) { return each.handle == other.handle; });
    if (one_in(3) && !is_origin && mine != streams_.end()) {
      said(cuStreamDestroy(other.handle), "cuStreamDestroy %s", other.name.c_str());
      streams_.erase(mine);
    }
  }
  if (fork != nullptr) cuEventDestroy(fork);
  if (join != nullptr) cuEventDestroy(join);
  cuCtxSetCurrent(before);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  said(cuStreamIsCapturing(origin.handle, &status), "cuStreamIsCapturing %s", origin.name.c_str());
  say("  status %u", static_cast<unsigned>(status));
}

void session::exchange_mode() {
  auto mode = static_cast<CUstreamCaptureMode>(below(3));
  said(cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode %u",
       static_cast<unsigned>(mode));
  say("  before it %u", static_cast<unsigned>(mode));
}

void session::instantiate() {
  if (graphs_.empty()) return;
  recorded& found = graphs_[below(static_cast<unsigned>(graphs_.size()))];
  if (found.ready != nullptr) return;
  unsigned const flags = one_in(3) ? CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH : 0;
  said(cuGraphInstantiateWithFlags(&found.ready, found.graph, flags), "cuGraphInstantiateWithFlags %s, %u",
       found.name.c_str(), flags);
}

void session::launch() {
  if (graphs_.empty()) return;
  recorded& found = graphs_[below(static_cast<unsigned>(graphs_.size()))];
  if (found.ready == nullptr || !may_run(found)) return;
  queue const on = some_stream();
  said(cuGraphLaunch(found.ready, on.handle), "cuGraphLaunch %s on %s", found.name.c_str(), on.name.c_str());
}

void session::destroy_graph() {
  if (graphs_.empty()) return;
  std::size_t const pick = below(static_cast<unsigned>(graphs_.size()));
  recorded const gone = graphs_[pick];
  std::erase_if(blocks_,
                [&](block const& each) { return each.graph == gone.graph && each.graph != nullptr; });
  if (gone.ready != nullptr) said(cuGraphExecDestroy(gone.ready), "cuGraphExecDestroy %s", gone.name.c_str());
  said(cuGraphDestroy(gone.graph), "cuGraphDestroy %s", gone.name.c_str());
  graphs_.erase(graphs_.begin() + static_cast<std::ptrdiff_t>(pick));
}

}  // namespace transcript
