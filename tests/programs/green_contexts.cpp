// Green contexts: memory made while one is current, or on a stream of one, is used after it is destroyed and
// in the next one, freed from anywhere, and its address is refused only when the primary context has gone.
// Exits with 77 where the driver has none. Run plain and preloaded by the integration and GPU tests. One
// thread.
#include "tests/programs/driver_support.hpp"

namespace {

using namespace programs;

CUgreenCtx make_green(CUdevice device) {
  CUdevResource all{};
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  REQUIRE(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
  REQUIRE(cuDevResourceGenerateDesc(&description, &all, 1));
  REQUIRE(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
  return green;
}

CUdeviceptr make(std::size_t bytes, unsigned char value) {
  const CUdeviceptr block = programs::make(bytes);
  REQUIRE(cuMemsetD8(block, value, bytes));
  return block;
}

void check(CUdeviceptr block, std::size_t bytes, unsigned char value, checksum& sum) {
  std::vector<unsigned char> host(bytes);
  REQUIRE(cuMemcpyDtoH(host.data(), block, bytes));
  REQUIRE_ALL(host.data(), bytes, value);
  sum.add(host.data(), bytes);
}

void round_of(CUdevice device, unsigned char value, bool keep_primary, checksum& sum) {
  CUcontext primary = nullptr;
  CUcontext context = nullptr;
  CUcontext again = nullptr;
  if (keep_primary) REQUIRE(cuDevicePrimaryCtxRetain(&primary, device));
  CUgreenCtx green = make_green(device);
  REQUIRE(cuCtxFromGreenCtx(&context, green));
  REQUIRE(cuCtxFromGreenCtx(&again, green));
  std::printf("converts to one handle: %d, to the primary's: %d\n", context == again, context == primary);
  CUstream stream = nullptr;
  REQUIRE(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  REQUIRE(cuCtxSetCurrent(context));
  const CUdeviceptr kept = make(300'000, value);
  for (int i = 0; i < 20; ++i) {  // reuse within the green context
    const CUdeviceptr block = make(1 << 20, static_cast<unsigned char>(i));
    REQUIRE(cuCtxSynchronize());
    REQUIRE(cuMemsetD8Async(block, 0x11, 1 << 20, stream));
    REQUIRE(drop(block));
  }
  CUdeviceptr ordered = 0;
  REQUIRE(cuMemAllocAsync(&ordered, 1 << 16, stream));
  ++counts.async_allocations;
  counts.bytes += 1 << 16;
  REQUIRE(cuMemsetD8Async(ordered, value, 1 << 16, stream));
  REQUIRE(cuStreamSynchronize(stream));
  REQUIRE(cuCtxSynchronize());
  check(kept, 300'000, value, sum);
  REQUIRE(cuStreamDestroy(stream));
  REQUIRE(cuCtxSetCurrent(primary));
  REQUIRE(cuGreenCtxDestroy(green));
  if (!keep_primary) {
    std::printf("with the primary context gone: free %d\n", static_cast<int>(drop(kept)));
    return;
  }
  check(kept, 300'000, value, sum);
  check(ordered, 1 << 16, value, sum);
  CUgreenCtx next = make_green(device);
  REQUIRE(cuCtxFromGreenCtx(&context, next));
  REQUIRE(cuCtxSetCurrent(context));
  std::printf("free in the next green context %d", static_cast<int>(drop(kept)));
  std::printf(", again %d\n", static_cast<int>(drop(kept)));
  REQUIRE(cuCtxSetCurrent(primary));
  REQUIRE(cuGreenCtxDestroy(next));
  std::printf("free after both %d\n", static_cast<int>(drop(ordered)));
  REQUIRE(cuCtxSetCurrent(nullptr));
  REQUIRE(cuDevicePrimaryCtxRelease(device));
}

}  // namespace

int main() {
  CUdevice device = 0;
  CUdevResource all{};
  checksum sum;
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGet(&device, 0));
  if (cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS) {
    std::printf("no green contexts here\n");
    return 77;
  }
  for (unsigned char round = 0; round < 5; ++round) round_of(device, round, true, sum);
  round_of(device, 99, false, sum);
  std::printf("checksum %016llx\n", (unsigned long long)sum.value());
  counts.print();
}
