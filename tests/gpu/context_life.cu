// Contexts that come and go, by the driver API: the primary context released to zero and retained again with
// blocks alive, several contexts whose blocks are freed from one another and die with their own, and green
// contexts with streams and blocks of their own. Mode: primary | several | green. Exits 77 where the device
// has no green contexts. One thread, and four in `several`.
#include <cuda.h>

#include <cstring>
#include <thread>

#include "tests/programs/driver_support.hpp"

namespace {

using namespace programs;

void fill_and_check(CUdeviceptr block, std::size_t bytes, unsigned int value) {
  std::vector<unsigned int> host(bytes / 4);
  REQUIRE(cuMemsetD32(block, value, bytes / 4));
  REQUIRE(cuCtxSynchronize());
  REQUIRE(cuMemcpyDtoH(host.data(), block, bytes));
  for (const unsigned int word : host) REQUIRE_CODE(word, value);
}

void primary(CUdevice device) {
  CUdeviceptr old = 0;
  for (int round = 0; round < 10; ++round) {
    CUcontext context = nullptr;
    REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
    REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
    REQUIRE(cuCtxSetCurrent(context));
    if (old != 0) std::printf("round %d: free of the old block gives %d\n", round, drop(old));
    const CUdeviceptr kept = make(1 << 20);
    const CUdeviceptr freed = make(64 << 10);
    fill_and_check(kept, 1 << 20, static_cast<unsigned int>(round));
    REQUIRE(drop(freed));
    REQUIRE(cuDevicePrimaryCtxRelease(device));
    fill_and_check(kept, 1 << 20, static_cast<unsigned int>(round + 100));  // one holder is left
    REQUIRE(cuCtxSetCurrent(nullptr));
    REQUIRE(cuDevicePrimaryCtxRelease(device));
    unsigned int flags = 0;
    int active = 1;
    REQUIRE(cuDevicePrimaryCtxGetState(device, &flags, &active));
    REQUIRE_CODE(active, 0);
    old = kept;
  }
  std::printf("the primary context went to zero 10 times\n");
}

void several(CUdevice device) {
  constexpr int many = 4;
  CUcontext contexts[many];
  CUdeviceptr kept[many];
  for (int i = 0; i < many; ++i) REQUIRE(cuCtxCreate(&contexts[i], nullptr, 0, device));
  std::vector<std::thread> workers;
  for (int i = 0; i < many; ++i) {
    workers.emplace_back([&, i] {
      REQUIRE(cuCtxSetCurrent(contexts[i]));
      for (int round = 0; round < 40; ++round) {
        const std::size_t bytes = std::size_t{4096} << (round % 9);
        const CUdeviceptr block = make(bytes);
        fill_and_check(block, bytes, static_cast<unsigned int>(i * 1000 + round));
        REQUIRE(drop(block));
      }
      kept[i] = make(1 << 20);
      fill_and_check(kept[i], 1 << 20, static_cast<unsigned int>(i));
    });
  }
  for (std::thread& worker : workers) worker.join();
  REQUIRE(cuCtxSetCurrent(contexts[0]));
  std::printf("a free from another context gives %d\n", drop(kept[1]));
  REQUIRE(cuCtxDestroy(contexts[1]));
  REQUIRE(cuCtxDestroy(contexts[2]));  // with a block alive
  std::printf("a free of a block of a destroyed context gives %d\n", drop(kept[2]));
  fill_and_check(kept[0], 1 << 20, 77);
  REQUIRE(cuCtxSetCurrent(contexts[3]));
  fill_and_check(kept[3], 1 << 20, 78);
  CUcontext again = nullptr;
  REQUIRE(cuCtxCreate(&again, nullptr, 0, device));
  const CUdeviceptr fresh = make(1 << 20);
  fill_and_check(fresh, 1 << 20, 79);
  REQUIRE(drop(fresh));
  for (CUcontext each : {contexts[0], contexts[3], again}) REQUIRE(cuCtxDestroy(each));
  std::printf("four contexts came and went\n");
}

void green(CUdevice device) {
  CUcontext primary_context = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&primary_context, device));
  REQUIRE(cuCtxSetCurrent(primary_context));
  const CUdeviceptr of_primary = make(1 << 20);
  CUdevResource all{};
  CUdevResource part{};
  unsigned int groups = 1;
  CUdevResourceDesc description = nullptr;
  CUgreenCtx created = nullptr;
  if (cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS ||
      cuDevSmResourceSplitByCount(&part, &groups, &all, nullptr, 0, 16) != CUDA_SUCCESS ||
      cuDevResourceGenerateDesc(&description, &part, 1) != CUDA_SUCCESS ||
      cuGreenCtxCreate(&created, description, device, CU_GREEN_CTX_DEFAULT_STREAM) != CUDA_SUCCESS) {
    std::printf("no green contexts on this device\n");
    std::exit(77);
  }
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  REQUIRE(cuCtxFromGreenCtx(&context, created));
  REQUIRE(cuGreenCtxStreamCreate(&stream, created, CU_STREAM_NON_BLOCKING, 0));
  REQUIRE(cuCtxSetCurrent(context));
  for (int round = 0; round < 50; ++round) {
    const std::size_t bytes = std::size_t{4096} << (round % 9);
    CUdeviceptr ordered = 0;
    ++counts.async_allocations;
    counts.bytes += bytes;
    REQUIRE(cuMemAllocAsync(&ordered, bytes, stream));
    REQUIRE(cuMemsetD32Async(ordered, 5, bytes / 4, stream));
    ++counts.async_frees;
    REQUIRE(cuMemFreeAsync(ordered, stream));
    const CUdeviceptr plain = make(bytes);
    fill_and_check(plain, bytes, static_cast<unsigned int>(round));
    REQUIRE(drop(plain));
  }
  const CUdeviceptr outlives = make(1 << 20);
  fill_and_check(outlives, 1 << 20, 6);
  REQUIRE(cuStreamSynchronize(stream));
  REQUIRE(cuStreamDestroy(stream));
  REQUIRE(cuCtxSetCurrent(primary_context));
  REQUIRE(cuGreenCtxDestroy(created));
  fill_and_check(of_primary, 1 << 20, 8);
  std::printf("a free of a block of a destroyed green context gives %d\n", drop(outlives));
  REQUIRE(drop(of_primary));
  REQUIRE(cuDevicePrimaryCtxRelease(device));
  std::printf("a green context came and went\n");
}

}  // namespace

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "primary";
  CUdevice device = 0;
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGet(&device, 0));
  if (std::strcmp(mode, "primary") == 0) primary(device);
  if (std::strcmp(mode, "several") == 0) several(device);
  if (std::strcmp(mode, "green") == 0) green(device);
  counts.print();
}
