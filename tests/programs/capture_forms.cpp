// Captures begun by every call that begins one: the plain one, into a graph, into the nodes of a graph anew
// (CUDA 13.3), into a command list of a graphics API (13.1; the simulated driver asks none for it). Blocks of
// many sizes are allocated and freed beside each, and none may be lost; at their ends nothing is left of
// them: a freed block serves another stream. "absent" where the driver lacks the call. Run plain and
// preloaded by the integration tests and on a GPU. One thread, in the relaxed mode.
#include <dlfcn.h>

#include <string>

#include "tests/programs/driver_support.hpp"

namespace {

using namespace programs;

template <typename... Arguments>
CUresult call(const char* name, bool per_thread, Arguments... arguments) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  const std::string symbol = std::string(name) + (per_thread ? "_ptsz" : "");
  const auto function = reinterpret_cast<CUresult (*)(Arguments...)>(dlsym(driver, symbol.c_str()));
  return function != nullptr ? function(arguments...) : CUDA_ERROR_NOT_FOUND;
}

char state_of(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  REQUIRE(cuStreamIsCapturing(stream, &status));
  return "nai"[static_cast<int>(status)];
}

void beside() {
  for (std::size_t size = 1; size <= 40; ++size) {
    const CUdeviceptr block = make(size << 20);
    const CUdeviceptr small = make(4096);
    REQUIRE(drop(block));
    REQUIRE(drop(small));
  }
}

using begin_call = CUresult (*)(CUstream, CUgraph, bool);
CUresult plain(CUstream stream, CUgraph, bool per_thread) {
  return call("cuStreamBeginCapture_v2", per_thread, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
}
CUresult to_graph(CUstream stream, CUgraph graph, bool per_thread) {
  return call("cuStreamBeginCaptureToGraph", per_thread, stream, graph,
              static_cast<const CUgraphNode*>(nullptr), static_cast<const void*>(nullptr), std::size_t{0},
              CU_STREAM_CAPTURE_MODE_RELAXED);
}
CUresult anew(CUstream stream, CUgraph graph, bool per_thread) {
  return call("cuStreamBeginRecaptureToGraph", per_thread, stream, CU_STREAM_CAPTURE_MODE_RELAXED, graph,
              static_cast<void*>(nullptr), static_cast<void*>(nullptr));
}
CUresult to_cig(CUstream stream, CUgraph, bool per_thread) {
  int none = 0;
  return call("cuStreamBeginCaptureToCig", per_thread, stream, &none);
}

// A graph of one node, as what is captured below.
CUgraph one_node(CUstream stream, CUdeviceptr target) {
  CUgraph graph = nullptr;
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  REQUIRE(cuMemsetD8Async(target, 1, 4096, stream));
  REQUIRE(cuStreamEndCapture(stream, &graph));
  return graph;
}

void captured(const char* what, begin_call begin, CUstream stream, bool per_thread, CUdeviceptr target) {
  const CUgraph graph = one_node(stream, target);
  const CUresult code = begin(stream, graph, per_thread);
  if (code == CUDA_ERROR_NOT_FOUND) {
    std::printf("%s: absent\n", what);
    REQUIRE(cuGraphDestroy(graph));
    return;
  }
  std::printf("%s%s: %d", what, per_thread ? " of a thread" : "", code);
  if (code == CUDA_SUCCESS) REQUIRE(cuMemsetD8Async(target, 2, 4096, stream));
  beside();
  CUgraph made = nullptr;
  std::printf(" %c", state_of(stream));
  const CUresult ended = begin == &to_cig ? call("cuStreamEndCaptureToCig", per_thread, stream)
                                          : cuStreamEndCapture(stream, &made);
  std::printf(" %d %c, the graph %s\n", ended, state_of(stream),
              made == nullptr ? "none"
              : made == graph ? "given"
                              : "new");
  if (made != nullptr && made != graph) REQUIRE(cuGraphDestroy(made));
  REQUIRE(cuGraphDestroy(graph));
  beside();
}

}  // namespace

int main(int argc, char** argv) {
  const bool graphics = argc > 1 && std::string(argv[1]) == "graphics";
  CUdevice device = 0;
  CUcontext context = nullptr;
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGet(&device, 0));
  REQUIRE(cuCtxCreate_v2(&context, 0, device));
  CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  REQUIRE(cuThreadExchangeStreamCaptureMode(&relaxed));
  CUstream stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const CUdeviceptr target = make(4096);
  for (const bool per_thread : {false, true}) {
    captured("begin", &plain, stream, per_thread, target);
    captured("begin to a graph", &to_graph, stream, per_thread, target);
    captured("begin to a graph anew", &anew, stream, per_thread, target);
    if (graphics) captured("begin to a command list", &to_cig, stream, per_thread, target);
  }
  REQUIRE(drop(target));
  REQUIRE(cuStreamDestroy(stream));
  REQUIRE(cuCtxDestroy(context));
  counts.print();
}
