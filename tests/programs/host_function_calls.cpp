// What a driver answers to calls in a host function of a stream, all of which CUDA forbids: frees, requests
// and questions, each in a function of its own, on two kinds of streams. What was not freed there lives on,
// and is freed behind it. Mode "callback": by callbacks of streams. Prints the codes. That they are all 800
// is NVIDIA's word, and the simulated CUDA's; no GPU was asked. Run plain and preloaded by the integration
// and GPU tests. One thread, and the driver's.
#include <cuda.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/programs/driver_support.hpp"

namespace {

using namespace programs;

using act = std::function<CUresult()>;

struct call {
  const char* what;
  act make;
  CUresult code = CUDA_ERROR_UNKNOWN;
};

void CUDA_CB inside(void* data) {
  auto& of = *static_cast<call*>(data);
  of.code = of.make();
}

void CUDA_CB inside_callback(CUstream, CUresult, void* data) {
  inside(data);
}

enum class way { host_function, callback };

void run(CUstream stream, way how, call& each) {
  if (how == way::host_function) {
    REQUIRE(cuLaunchHostFunc(stream, inside, &each));
  } else {
    REQUIRE(cuStreamAddCallback(stream, inside_callback, &each, 0));
  }
  REQUIRE(cuStreamSynchronize(stream));
  std::printf("%s: %d\n", each.what, each.code);
}

// Of each kind a block that is freed inside, and one that is asked about.
struct blocks {
  CUdeviceptr small = 0, large = 0, ordered = 0, managed = 0;
  void* host = nullptr;
};

blocks make_blocks(CUstream stream) {
  blocks made;
  REQUIRE(cuMemAlloc(&made.small, 4096));
  REQUIRE(cuMemAlloc(&made.large, 64 << 20));
  REQUIRE(cuMemAllocAsync(&made.ordered, 100000, stream));
  REQUIRE(cuMemAllocManaged(&made.managed, 100000, CU_MEM_ATTACH_GLOBAL));
  REQUIRE(cuMemAllocHost(&made.host, 100000));
  return made;
}

void frees(CUstream stream, way how) {
  blocks b = make_blocks(stream);
  std::vector<call> all = {
      {"free of 4 KiB", [&] { return cuMemFree(b.small); }},
      {"free of 64 MiB", [&] { return cuMemFree(b.large); }},
      {"free in stream order", [&] { return cuMemFreeAsync(b.ordered, stream); }},
      {"the same on the legacy stream", [&] { return cuMemFreeAsync(b.ordered, CU_STREAM_LEGACY); }},
      {"free of managed memory", [&] { return cuMemFree(b.managed); }},
      {"free of page-locked memory", [&] { return cuMemFreeHost(b.host); }},
      {"free of null", [] { return cuMemFree(0); }},
      {"free of nobody's", [] { return cuMemFree(0x5000); }},
  };
  for (call& each : all) run(stream, how, each);
  const auto left = [&](std::size_t at) { return all[at].code != CUDA_SUCCESS; };
  if (left(0)) REQUIRE(cuMemFree(b.small));
  if (left(1)) REQUIRE(cuMemFree(b.large));
  if (left(2) && left(3)) REQUIRE(cuMemFreeAsync(b.ordered, stream));
  if (left(4)) REQUIRE(cuMemFree(b.managed));
  if (left(5)) REQUIRE(cuMemFreeHost(b.host));
}

void requests(CUstream stream, way how) {
  CUdeviceptr made = 0;
  void* host = nullptr;
  std::vector<call> all = {
      {"4 KiB", [&] { return cuMemAlloc(&made, 4096); }},
      {"96 MiB", [&] { return cuMemAlloc(&made, 96 << 20); }},
      {"in stream order", [&] { return cuMemAllocAsync(&made, 4096, stream); }},
      {"in order of the own default stream",
       [&] { return cuMemAllocAsync(&made, 4096, CU_STREAM_PER_THREAD); }},
      {"managed", [&] { return cuMemAllocManaged(&made, 4096, CU_MEM_ATTACH_GLOBAL); }},
      {"page-locked", [&] { return cuMemAllocHost(&host, 4096); }},
  };
  for (call& each : all) {
    run(stream, how, each);
    if (each.code == CUDA_SUCCESS && host == nullptr) REQUIRE(cuMemFree(made));
  }
  if (host != nullptr) REQUIRE(cuMemFreeHost(host));
}

void questions(CUstream stream, way how) {
  blocks b = make_blocks(stream);
  CUcontext context = nullptr;
  CUdeviceptr base = 0;
  std::size_t bytes = 0, total = 0;
  unsigned value = 0;
  std::vector<call> all = {
      {"the current context", [&] { return cuCtxGetCurrent(&context); }},
      {"the range of an address", [&] { return cuMemGetAddressRange(&base, &bytes, b.large + 5); }},
      {"an attribute",
       [&] { return cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, b.small); }},
      {"flags of page-locked memory", [&] { return cuMemHostGetFlags(&value, b.host); }},
      {"free memory", [&] { return cuMemGetInfo(&bytes, &total); }},
      {"a stream", [&] { return cuStreamQuery(CU_STREAM_PER_THREAD); }},
  };
  for (call& each : all) run(stream, how, each);
  REQUIRE(cuMemFree(b.small));
  REQUIRE(cuMemFree(b.large));
  REQUIRE(cuMemFreeAsync(b.ordered, stream));
  REQUIRE(cuMemFree(b.managed));
  REQUIRE(cuMemFreeHost(b.host));
}

}  // namespace

int main(int count, char** arguments) {
  const way how = count > 1 && std::string(arguments[1]) == "callback" ? way::callback : way::host_function;
  CUdevice device = 0;
  CUcontext context = nullptr;
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGet(&device, 0));
  REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
  REQUIRE(cuCtxSetCurrent(context));
  for (const unsigned flags : {CU_STREAM_NON_BLOCKING, CU_STREAM_DEFAULT}) {
    CUstream stream = nullptr;
    REQUIRE(cuStreamCreate(&stream, flags));
    frees(stream, how);
    requests(stream, how);
    questions(stream, how);
    REQUIRE(cuStreamDestroy(stream));
  }
  // The same thread's calls succeed behind it.
  blocks b = make_blocks(CU_STREAM_LEGACY);
  REQUIRE(cuMemFreeAsync(b.ordered, CU_STREAM_LEGACY));
  for (CUdeviceptr block : {b.small, b.large, b.managed}) REQUIRE(cuMemFree(block));
  REQUIRE(cuMemFreeHost(b.host));
  REQUIRE(cuDevicePrimaryCtxRelease(device));
}
