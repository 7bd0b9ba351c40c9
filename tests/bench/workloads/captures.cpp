// Programs that capture graphs all the time: capture of one memset, its end, instantiation, launch and
// destruction, with a pair of allocations on the captured stream (nodes of the graph) or without; and pairs
// beside an open capture, where no event may be recorded. Microseconds a graph, nanoseconds a pair. One
// thread.
#include "tests/bench/workloads/workloads.hpp"

namespace {

void one_graph(bench::allocator* memory, void* target, cudaStream_t captured) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  REQUIRE(cudaStreamBeginCapture(captured, cudaStreamCaptureModeRelaxed));
  void* block = memory == nullptr ? nullptr : memory->allocate(1 << 20, captured);
  REQUIRE(cudaMemsetAsync(target, 1, 4096, captured));
  if (memory != nullptr) memory->free(block, 1 << 20, captured);
  REQUIRE(cudaStreamEndCapture(captured, &graph));
  REQUIRE(cudaGraphInstantiate(&ready, graph, 0));
  REQUIRE(cudaGraphLaunch(ready, captured));
  REQUIRE(cudaStreamSynchronize(captured));
  REQUIRE(cudaGraphExecDestroy(ready));
  REQUIRE(cudaGraphDestroy(graph));
}

}  // namespace

void bench::captures(allocator& memory, const options& wanted) {
  const stream captured, beside;
  const double budget = wanted.seconds * 1e9;
  void* target = memory.allocate(4096, beside.get());
  REQUIRE(cudaDeviceSynchronize());
  emit("captures", "graph of a memset", "graph",
       median_of_batches(budget, [&] { one_graph(nullptr, target, captured.get()); }) / 1e3, "us");
  if (memory.stream_ordered())
    emit("captures", "graph with a pair in it", "graph",
         median_of_batches(budget, [&] { one_graph(&memory, target, captured.get()); }) / 1e3, "us");
  emit("captures", "graph and 64 pairs of 64 KiB before it", "graph",
       median_of_batches(budget,
                         [&] {
                           for (int i = 0; i < 64; ++i)
                             memory.free(memory.allocate(65536, beside.get()), 65536, beside.get());
                           one_graph(nullptr, target, captured.get());
                         }) /
           1e3,
       "us");

  REQUIRE(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeRelaxed));
  REQUIRE(cudaMemsetAsync(target, 1, 4096, captured.get()));
  std::vector<double> each;
  for (int repeat = 0; repeat < 32; ++repeat) {
    const double begin = now();
    for (int i = 0; i < 64; ++i) memory.free(memory.allocate(65536, beside.get()), 65536, beside.get());
    each.push_back((now() - begin) / 64);
  }
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(captured.get(), &graph));
  REQUIRE(cudaGraphDestroy(graph));
  emit("captures", "64 KiB beside an open capture", "pair", median(std::move(each)), "ns");
  memory.free(target, 4096, beside.get());
}
