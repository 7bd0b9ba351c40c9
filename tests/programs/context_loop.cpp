// Contexts that are made, used and ended one after the other, or a few at a time, for ever: neither the heap
// nor the time of an end may grow with their number. Modes: `created`: each by cuCtxCreate, with a stream
// and memory of each kind; `kept`: the same with three alive, ended in another order than made; `primary`: a
// device's own, reset each time; `threads`: two threads at once, each with contexts of its own. Prints how
// much the heap grew for each context after the first ones, when the second argument is `heap`. One device.
#include <malloc.h>

#include <cstring>
#include <thread>

#include "tests/programs/driver_support.hpp"

namespace {

using namespace programs;

// The block that stays alive dies with the context.
void use() {
  CUstream stream = nullptr;
  CUdeviceptr ordered = 0;
  void* host = nullptr;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (const std::size_t bytes : {1000, 70'000, 3 << 20}) {
    REQUIRE(drop(make(bytes)));
    for (const CUstream on : {stream, CU_STREAM_PER_THREAD}) {
      REQUIRE(cuMemAllocAsync(&ordered, bytes, on));
      REQUIRE(cuMemFreeAsync(ordered, on));
      ++counts.async_allocations;
      ++counts.async_frees;
      counts.bytes += bytes;
    }
  }
  REQUIRE(cuMemHostAlloc(&host, 5000, 0));
  REQUIRE(cuMemFreeHost(host));
  const CUdeviceptr kept = make(20'000);
  REQUIRE(cuMemsetD8(kept, 7, 20'000));
  REQUIRE(cuStreamSynchronize(stream));
}

void created(int contexts, std::size_t alive) {
  std::vector<CUcontext> all;
  for (int i = 0; i < contexts; ++i) {
    CUcontext made = nullptr;
    REQUIRE(cuCtxCreate_v2(&made, 0, 0));
    use();
    REQUIRE(cuCtxPopCurrent(&made));  // or the thread's stack of contexts keeps those that have ended
    all.push_back(made);
    if (all.size() < alive) continue;
    const auto ended = all.begin() + i % static_cast<int>(alive);
    REQUIRE(cuCtxDestroy(*ended));
    all.erase(ended);
  }
  for (const CUcontext each : all) REQUIRE(cuCtxDestroy(each));
}

void primary(int contexts) {
  for (int i = 0; i < contexts; ++i) {
    CUcontext made = nullptr;
    REQUIRE(cuDevicePrimaryCtxRetain(&made, 0));
    REQUIRE(cuCtxSetCurrent(made));
    use();
    if (i % 2 == 0) REQUIRE(cuDevicePrimaryCtxReset(0));
    REQUIRE(cuCtxSetCurrent(nullptr));
    REQUIRE(cuDevicePrimaryCtxRelease(0));
  }
}

void run(const char* mode, int contexts) {
  if (std::strcmp(mode, "created") == 0) created(contexts, 1);
  if (std::strcmp(mode, "kept") == 0) created(contexts, 3);
  if (std::strcmp(mode, "primary") == 0) primary(contexts);
  if (std::strcmp(mode, "threads") == 0) {
    std::thread other([contexts] { created(contexts / 2, 2); });
    created(contexts / 2, 3);
    other.join();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "created";
  const bool tells = argc > 2 && std::strcmp(argv[2], "heap") == 0;
  const int contexts = argc > 3 ? std::atoi(argv[3]) : 400;
  REQUIRE(cuInit(0));
  run(mode, 100);
  const std::size_t before = mallinfo2().uordblks;
  run(mode, contexts);
  const std::size_t after = mallinfo2().uordblks;
  std::printf("%s: %d contexts were made and ended\n", mode, 100 + contexts);
  if (tells) std::printf("heap: %ld bytes\n", static_cast<long>(after) - static_cast<long>(before));
  counts.print();
}
