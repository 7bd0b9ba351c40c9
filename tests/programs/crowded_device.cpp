// Threads that ask at once for all of the device but a little, which was freed a moment ago: each gets its
// part, as what a pool keeps of freed memory is nobody's. Modes: `managed`: by a call that no chain serves by
// default; `contexts`: each in a context of its own, by cuMemAlloc. Four threads; the number of rounds is the
// second argument.
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

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  bool const managed = std::strcmp(argv[1], "managed") == 0;
  int const rounds = std::atoi(argv[2]);
  REQUIRE(cuInit(0));
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
