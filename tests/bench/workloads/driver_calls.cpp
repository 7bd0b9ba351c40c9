// What the driver's own calls cost that gpumem makes: on a hit (the current context) and once for many frees
// or once for a large one (an event on the context, and the look at it), and at its start (cuMemGetInfo).
// Whoever writes a budget needs them of the same machine. The allocator is not used. One thread, no GPU work,
// with 1 and with 64 streams.
#include <cuda.h>

#include <memory>

#include "tests/bench/workloads/workloads.hpp"

void bench::driver_calls(allocator&, const options& wanted) {
  const auto get_current = driver_function<CUresult (*)(CUcontext*)>("cuCtxGetCurrent", 4000);
  const auto record = driver_function<CUresult (*)(CUcontext, CUevent)>("cuCtxRecordEvent", 12050);
  const auto query = driver_function<CUresult (*)(CUevent)>("cuEventQuery", 2000);
  const auto exchange =
      driver_function<CUresult (*)(CUstreamCaptureMode*)>("cuThreadExchangeStreamCaptureMode", 10010);
  const double budget = wanted.seconds * 1e9;
  CUcontext context = nullptr;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  get_current(&context);
  std::vector<std::unique_ptr<stream>> streams;
  for (const std::size_t count : {1, 64}) {
    while (streams.size() < count) streams.push_back(std::make_unique<stream>());
    const auto tell = [&](const char* metric, auto step) {
      emit("driver_calls", std::to_string(count) + " streams", metric, median_of_batches(budget, step), "ns");
    };
    tell("cuCtxGetCurrent", [&] { get_current(&context); });
    if (record != nullptr) {
      record(context, event);
      tell("cuCtxRecordEvent", [&] { record(context, event); });
      tell("cuCtxRecordEvent + cuEventQuery", [&] {
        record(context, event);
        query(event);
      });
    }
    tell("cuEventQuery of a done event", [&] { query(event); });
    tell("cuThreadExchangeStreamCaptureMode, twice", [&] {
      CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
      exchange(&mode);
      exchange(&mode);
    });
    tell("cuMemGetInfo", [&] {
      std::size_t free = 0, total = 0;
      REQUIRE(cudaMemGetInfo(&free, &total));
    });
    tell("cudaFree(nullptr)", [&] { REQUIRE(cudaFree(nullptr)); });
    tell("cudaMalloc(0)", [&] {
      void* nothing = nullptr;
      REQUIRE(cudaMalloc(&nothing, 0));
    });
  }
  REQUIRE(cudaEventDestroy(event));
}
