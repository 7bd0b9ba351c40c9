// Threads that ask at once for all of the device but a little, which was freed a moment ago: each gets its
// part, as what a pool keeps of freed memory is nobody's. Modes: `managed`: by a call that no chain serves by
// default; `contexts`: each in a context of its own, by cuMemAlloc. `made`: contexts and streams are made
// where all of the device was freed a moment ago, each of which takes memory for itself; `loads`: the same of
// a module, of a launch and of larger stacks, and `maps` of memory that is mapped: the host's, or by its
// handle; on the simulated CUDA (tests/gpu/room_for_others asks a driver). Four threads; the number of rounds
// is the second argument.
#include <cuda.h>

#include <barrier>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

constexpr std::size_t threads = 4;

void take_part(CUcontext context, std::size_t bytes, bool managed, std::barrier<>& all) {
  REQUIRE(cuCtxSetCurrent(context));
  CUdeviceptr part = 0;
  all.arrive_and_wait();
  REQUIRE(managed ? cuMemAllocManaged(&part, bytes, CU_MEM_ATTACH_GLOBAL) : cuMemAlloc(&part, bytes));
  all.arrive_and_wait();
  REQUIRE(cuMemFree(part));
}

// One block of all that is free, and its end.
void fill_and_free() {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  REQUIRE(cuMemGetInfo(&free_bytes, &total));
  CUdeviceptr block = 0;
  std::size_t bytes = free_bytes >> 21 << 21;
  while (cuMemAlloc(&block, bytes) == CUDA_ERROR_OUT_OF_MEMORY) bytes -= std::size_t{2} << 20;
  REQUIRE(cuMemFree(block));
}

void make_contexts(int rounds) {
  CUcontext mine = nullptr;
  REQUIRE(cuCtxCreate(&mine, nullptr, 0, 0));
  for (int i = 0; i < rounds; ++i) {
    CUcontext other = nullptr;
    fill_and_free();
    REQUIRE(cuCtxCreate(&other, nullptr, 0, 0));
    REQUIRE(cuCtxDestroy(other));
    fill_and_free();
    CUstream stream = nullptr;
    REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    REQUIRE(cuStreamDestroy(stream));
    fill_and_free();
    REQUIRE(cuDevicePrimaryCtxRetain(&other, 0));
    REQUIRE(cuDevicePrimaryCtxRelease(0));
  }
}

void load_and_launch(int rounds) {
  CUcontext mine = nullptr;
  REQUIRE(cuCtxCreate(&mine, nullptr, 0, 0));
  for (int i = 0; i < rounds; ++i) {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    fill_and_free();
    REQUIRE(cuModuleLoadData(&module, "simulated module 33554432"));
    REQUIRE(cuModuleGetFunction(&function, module, "local 67108864"));
    fill_and_free();
    REQUIRE(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    REQUIRE(cuModuleUnload(module));
    fill_and_free();
    REQUIRE(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, (64 + static_cast<std::size_t>(i)) << 10));
  }
  REQUIRE(cuCtxSynchronize());
}

// What is mapped has page tables, which are the device's memory as well.
void map_memory(int rounds) {
  CUcontext mine = nullptr;
  REQUIRE(cuCtxCreate(&mine, nullptr, 0, 0));
  std::vector<char> host(1 << 20);
  constexpr std::size_t bytes = std::size_t{2} << 20;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemAccessDesc const access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  REQUIRE(cuMemCreate(&handle, bytes, &properties, 0));
  REQUIRE(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  for (int i = 0; i < rounds; ++i) {
    fill_and_free();
    REQUIRE(cuMemHostRegister(host.data(), host.size(), 0));
    REQUIRE(cuMemHostUnregister(host.data()));
    fill_and_free();
    REQUIRE(cuMemMap(address, bytes, 0, handle, 0));
    REQUIRE(cuMemSetAccess(address, bytes, &access, 1));
    REQUIRE(cuMemUnmap(address, bytes));
  }
  REQUIRE(cuMemRelease(handle));
  REQUIRE(cuMemAddressFree(address, bytes));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  bool const managed = std::strcmp(argv[1], "managed") == 0;
  int const rounds = std::atoi(argv[2]);
  REQUIRE(cuInit(0));
  if (std::strcmp(argv[1], "made") == 0) {
    make_contexts(rounds);
    std::puts("made: each context was made");
    return 0;
  }
  if (std::strcmp(argv[1], "loads") == 0) {
    load_and_launch(rounds);
    std::puts("loads: each was loaded and launched");
    return 0;
  }
  if (std::strcmp(argv[1], "maps") == 0) {
    map_memory(rounds);
    std::puts("maps: all was mapped");
    return 0;
  }
  CUcontext primary = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&primary, 0));
  std::vector<CUcontext> contexts(threads, primary);
  for (CUcontext& own : contexts) {
    if (!managed) REQUIRE(cuCtxCreate(&own, nullptr, 0, 0));
  }
  REQUIRE(cuCtxSetCurrent(primary));
  std::size_t free_bytes = 0, total = 0;
  REQUIRE(cuMemGetInfo(&free_bytes, &total));
  std::size_t const part = free_bytes / 5 >> 21 << 21;
  for (int i = 0; i < rounds; ++i) {
    CUdeviceptr whole = 0;
    REQUIRE(cuMemAlloc(&whole, part * threads));
    REQUIRE(cuMemFree(whole));
    std::barrier<> all(threads);
    std::vector<std::jthread> team;
    for (CUcontext const context : contexts)
      team.emplace_back([&, context] { take_part(context, part, managed, all); });
  }
  std::printf("%s: each got its part\n", argv[1]);
}
