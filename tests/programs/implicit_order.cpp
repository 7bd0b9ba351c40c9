// Memory that is freed in the order of a stream after work of another one, of which no event tells: blocking
// streams and the legacy one wait for each other by themselves, and a stream may only wait for an event, with
// no work of its own. Nearly all of the device is freed so, while that work runs, and asked for again on a
// stream that waits for nothing. Argument: `blocking`, freed on a blocking stream after work of the legacy
// one; `legacy`, the other way round; `event`, freed on a stream that waits for an event. The checker of the
// simulated CUDA looks on; tests/gpu/implicit_order.cu asks a driver. One thread.
#include <cuda.h>

#include <cstring>

#include "tests/programs/support.hpp"
#include "tests/simulated_cuda/simulated.h"

namespace {

using namespace programs;

constexpr std::size_t mib = std::size_t{1} << 20, all = 6000 * mib, asked = 4000 * mib;
constexpr unsigned long long work_ns = 50'000'000;

CUstream make_stream(unsigned flags) {
  CUstream made = nullptr;
  REQUIRE(cuStreamCreate(&made, flags));
  return made;
}

struct streams {
  CUstream uses, frees;
};
streams chosen(char const* how) {
  if (std::strcmp(how, "blocking") == 0) return {CU_STREAM_LEGACY, make_stream(CU_STREAM_DEFAULT)};
  if (std::strcmp(how, "legacy") == 0) return {make_stream(CU_STREAM_DEFAULT), CU_STREAM_LEGACY};
  return {make_stream(CU_STREAM_NON_BLOCKING), make_stream(CU_STREAM_NON_BLOCKING)};
}

}  // namespace

int main(int argc, char** argv) {
  char const* const how = argc > 1 ? argv[1] : "";
  CUcontext context = nullptr;
  REQUIRE(cuInit(0));
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 0));
  REQUIRE(cuCtxSetCurrent(context));
  streams const s = chosen(how);
  CUstream const asking = make_stream(CU_STREAM_NON_BLOCKING);
  CUevent over = nullptr;
  REQUIRE(cuEventCreate(&over, CU_EVENT_DISABLE_TIMING));
  for (int round = 0; round < 3; ++round) {
    CUdeviceptr block = 0, next = 0;
    REQUIRE(cuMemAllocAsync(&block, all, s.frees));
    REQUIRE(cuStreamSynchronize(s.frees));
    simulatedNoteAllocate(block, all, s.frees);
    simulated_access const access{block, all, 1};
    REQUIRE(simulated_control::launch(s.uses, &access, 1, work_ns));
    if (std::strcmp(how, "event") == 0) {
      REQUIRE(cuEventRecord(over, s.uses));
      REQUIRE(cuStreamWaitEvent(s.frees, over, 0));
    }
    simulatedNoteFree(block, s.frees);
    REQUIRE(cuMemFreeAsync(block, s.frees));
    int const code = cuMemAllocAsync(&next, asked, asking);
    std::printf("asked for beside the work: %d\n", code);
    REQUIRE(code);
    simulatedNoteAllocate(next, asked, asking);
    simulated_access const later{next, asked, 1};
    REQUIRE(simulated_control::launch(asking, &later, 1, 1000));
    REQUIRE(cuStreamSynchronize(asking));
    simulatedNoteFree(next, asking);
    REQUIRE(cuMemFreeAsync(next, asking));
    REQUIRE(cuCtxSynchronize());
  }
  std::printf("accesses that nothing orders: %llu\n", simulated_control::hazards());
}
