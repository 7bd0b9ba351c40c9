// Graphs made by capture: instantiate, launch, destroy.
// Any thread.
// The nodes of a launch run one after the other on the stream: no order that the program did not get from
// CUDA is reported as missing, at the price of not seeing unordered branches inside one graph.
#include <algorithm>

#include "entry.hpp"

using namespace simulated;

namespace {

CUresult instantiate(machine& m, CUgraphExec* out, CUgraph which, unsigned long long flags) {
  auto* const source = reinterpret_cast<graph*>(which);
  if (out == nullptr || m.graphs_.count(source) == 0) return CUDA_ERROR_INVALID_VALUE;
  SIMULATED_TRY(m.unsafe_call());  // measured: asked_rules captured_oddly
  bool const allocates =
      std::ranges::any_of(source->nodes, [](auto const& n) { return n.allocates != nullptr; });
  for (graph_exec const* each : m.execs_) {
    if (allocates && each->source == source) return CUDA_ERROR_NOT_SUPPORTED;  // measured
  }
  auto* made = new graph_exec;
  made->source = source;
  made->nodes = source->nodes;
  made->auto_free = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  m.execs_.insert(made);
  *out = reinterpret_cast<CUgraphExec>(made);
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API cuGraphCreate(CUgraph* out, unsigned flags) {
  SIMULATED_CALL(after_init);
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  auto* made = new graph;
  m.graphs_.insert(made);
  *out = reinterpret_cast<CUgraph>(made);
  return CUDA_SUCCESS;
}

SIMULATED_API cuGraphDestroy(CUgraph which) {
  SIMULATED_CALL(after_init);
  auto* const gone = reinterpret_cast<graph*>(which);
  if (m.graphs_.erase(gone) == 0) return CUDA_ERROR_INVALID_VALUE;
  for (graph_exec* each : m.execs_) {
    if (each->source == gone) each->source = nullptr;
  }
  delete gone;
  return CUDA_SUCCESS;
}

SIMULATED_API cuGraphGetNodes(CUgraph which, CUgraphNode* nodes, size_t* count) {
  SIMULATED_CALL(after_init);
  auto* const of = reinterpret_cast<graph*>(which);
  if (count == nullptr || m.graphs_.count(of) == 0) return CUDA_ERROR_INVALID_VALUE;
  if (nodes != nullptr) {
    for (std::size_t i = 0; i < *count && i < of->nodes.size(); ++i) {
      nodes[i] = reinterpret_cast<CUgraphNode>(&of->nodes[i]);
    }
  }
  *count = of->nodes.size();
  return CUDA_SUCCESS;
}

SIMULATED_API cuGraphNodeGetType(CUgraphNode which, CUgraphNodeType* type) {
  SIMULATED_CALL(after_init);
  auto const* const node = reinterpret_cast<graph_node const*>(which);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->allocates            ? CU_GRAPH_NODE_TYPE_MEM_ALLOC
          : node->frees              ? CU_GRAPH_NODE_TYPE_MEM_FREE
          : node->work.host_function ? CU_GRAPH_NODE_TYPE_HOST
          : node->work.by_program    ? CU_GRAPH_NODE_TYPE_KERNEL
                                     : CU_GRAPH_NODE_TYPE_MEMCPY;
  return CUDA_SUCCESS;
}

SIMULATED_API cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph which, unsigned long long flags) {
  SIMULATED_CALL(after_init);
  return instantiate(m, out, which, flags);
}

SIMULATED_API cuGraphInstantiate_v2(CUgraphExec* out, CUgraph which, CUgraphNode* bad, char* log,
                                    size_t log_bytes) {
  SIMULATED_CALL(after_init);
  if (bad != nullptr) *bad = nullptr;
  if (log != nullptr && log_bytes != 0) *log = '\0';
  return instantiate(m, out, which, 0);
}

SIMULATED_API cuGraphExecDestroy(CUgraphExec which) {
  SIMULATED_CALL(after_init);
  auto* const gone = reinterpret_cast<graph_exec*>(which);
  if (m.execs_.erase(gone) == 0) return CUDA_ERROR_INVALID_VALUE;
  // A launch may still run; its memory goes when its work is done.
  for (graph_node const& node : gone->nodes) {
    if (node.allocates) {
      m.run_all();
      break;
    }
  }
  delete gone;
  return CUDA_SUCCESS;
}

SIMULATED_API cuGraphUpload(CUgraphExec which, CUstream on) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  return m.execs_.count(reinterpret_cast<graph_exec*>(which)) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
SIMULATED_PER_THREAD(cuGraphUpload, _ptsz, (CUgraphExec which, CUstream on), (which, on))

SIMULATED_API cuGraphLaunch(CUgraphExec which, CUstream on) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  auto* const launched = reinterpret_cast<graph_exec*>(which);
  if (m.execs_.count(launched) == 0) return CUDA_ERROR_INVALID_VALUE;
  SIMULATED_TRY(m.resolve(on, where));
  for (graph_node const& node : launched->nodes) {
    if (node.allocates && node.allocates->live && !launched->auto_free) return CUDA_ERROR_INVALID_VALUE;
  }
  for (graph_node const& node : launched->nodes) {
    if (node.allocates) {
      m.allocated(node.allocates);
    } else if (node.frees) {
      m.freed(*node.frees, where->tail);
    } else {
      SIMULATED_TRY(m.submit(*where, node.work));
    }
  }
  return m.submit(*where, {"graph launch", 0, {}, {}, {}, false});
}
SIMULATED_PER_THREAD(cuGraphLaunch, _ptsz, (CUgraphExec which, CUstream on), (which, on))
