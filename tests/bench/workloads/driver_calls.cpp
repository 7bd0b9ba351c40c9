// What the driver's own calls cost that gpumem makes: on a hit (the current context) and once for many frees
// or once for a large one (an event on the context, and the look at it), and at its start (cuMemGetInfo).
// Whoever writes a budget needs them of the same machine. The allocator is not used. One thread, no GPU work
// but where it is said, with 1 and with 64 streams.
#include <cuda.h>

#include <memory>

#include "tests/bench/workloads/workloads.hpp"

namespace {

// The same in a program that has work: a fill that is done before the event is recorded. A success is dearer
// then than where the GPU has had nothing to do since the last one.
template <typename Record, typename Query, typename Tell>
void after_work(const Record& record, const Query& query, const Tell& tell) {
  void* target = nullptr;
  REQUIRE(cudaMalloc(&target, 4096));
  std::vector<double> recorded, asked, again;
  const double clock = bench::median_of_batches(1e6, [] { bench::now(); });  // what each reading of it adds
  for (int round = 0; round < 200; ++round) {
    REQUIRE(cudaMemsetAsync(target, round, 4096, nullptr));
    const double begin = bench::now();
    while (bench::now() < begin + 30e3) {
    }
    const double from = bench::now();
    record();
    const double then = bench::now();
    query();
    const double first = bench::now();
    query();
    const double second = bench::now();
    recorded.push_back(then - from - clock);
    asked.push_back(first - then - clock);
    again.push_back(second - first - clock);
  }
  REQUIRE(cudaFree(target));
  tell("cuCtxRecordEvent after work that is done", bench::median(std::move(recorded)));
  tell("cuEventQuery of that event", bench::median(std::move(asked)));
  tell("cuEventQuery of it once more", bench::median(std::move(again)));
}

}  // namespace

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
    if (record != nullptr) {
      after_work([&] { record(context, event); }, [&] { query(event); },
                 [&](const char* metric, double ns) {
                   emit("driver_calls", std::to_string(count) + " streams", metric, ns, "ns");
                 });
    }
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
