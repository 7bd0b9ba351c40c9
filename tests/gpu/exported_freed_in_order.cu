// What the driver does with plain memory that another process has open by a legacy handle, when it is freed:
// by cuMemFree, and in the order of a stream (cuMemFreeAsync), also beside a kernel that runs. Whether the
// other one still reads what was there, may close it, and when the device has the memory again. gpumem gives
// such memory back like any other. Prints codes, yes and no.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/workloads/device_use.hpp"
#include "tests/gpu/beside_a_kernel.cuh"

namespace {

using namespace programs;

constexpr std::size_t bytes = std::size_t{64} << 20;
constexpr int ways = 3;

struct answer {
  int opened, first, after, closed;
};

int import(int in, int out) {
  for (int way = 0; way < ways; ++way) {
    cudaIpcMemHandle_t handle;
    transfer(false, in, &handle, sizeof handle);
    void* mapped = nullptr;
    answer told{};
    told.opened = cudaIpcOpenMemHandle(&mapped, handle, cudaIpcMemLazyEnablePeerAccess);
    if (told.opened == cudaSuccess) REQUIRE(cudaMemcpy(&told.first, mapped, 4, cudaMemcpyDeviceToHost));
    transfer(true, out, &told, sizeof told);
    char freed = 0;
    transfer(false, in, &freed, 1);
    if (told.opened == cudaSuccess) {
      REQUIRE(cudaMemcpy(&told.after, mapped, 4, cudaMemcpyDeviceToHost));
      told.closed = cudaIpcCloseMemHandle(mapped);
    }
    transfer(true, out, &told, sizeof told);
  }
  return 0;
}

void free_in(int way, CUdeviceptr block, const spinning& at) {
  const char* const names[ways] = {"by cuMemFree", "in order", "in order beside a kernel"};
  std::printf("freed %s\n", names[way]);
  if (way == 0) {
    std::printf("code %d\n", cuMemFree(block));
    return;
  }
  const auto free = [&] {
    const int code = cuMemFreeAsync(block, at.own);
    std::printf("code %d, %d\n", code, static_cast<int>(cuStreamSynchronize(at.own)));
  };
  way == 1 ? free() : at.beside_a_kernel("the free", free);
}

void export_to(int out, int in) {
  const bench::device_use device;
  const spinning at;
  for (int way = 0; way < ways; ++way) {
    CUdeviceptr block = 0;
    REQUIRE(cuMemAlloc(&block, bytes));
    const int pattern = 0x01010101 * (way + 1);
    REQUIRE(cuMemsetD8(block, static_cast<unsigned char>(way + 1), bytes));
    REQUIRE(cudaDeviceSynchronize());
    CUipcMemHandle handle;
    REQUIRE(cuIpcGetMemHandle(&handle, block));
    answer told{};
    transfer(true, out, &handle, sizeof handle);
    transfer(false, in, &told, sizeof told);
    const std::uint64_t before = device.bytes();
    free_in(way, block, at);
    const std::uint64_t freed = device.bytes();
    CUdeviceptr others[3];
    bool same = false;
    for (CUdeviceptr& other : others) {
      REQUIRE(cuMemAlloc(&other, bytes));
      REQUIRE(cuMemsetD8(other, 99, bytes));
      same = same || other == block;
    }
    REQUIRE(cudaDeviceSynchronize());
    const bool was = told.first == pattern;
    char done = 1;
    transfer(true, out, &done, 1);
    transfer(false, in, &told, sizeof told);
    for (const CUdeviceptr other : others) REQUIRE(cuMemFree(other));
    const std::uint64_t closed = device.bytes();
    std::printf("opened %d, read %s, afterwards %s, closed %d\n", told.opened, was ? "yes" : "no",
                told.after == pattern ? "yes" : "no", told.closed);
    std::printf("the device has it at once: %s; once it is closed: %s\n",
                before - freed >= bytes ? "yes" : "no", before - closed >= bytes ? "yes" : "no");
    std::printf("time: its address came again: %s\n", same ? "yes" : "no");
  }
}

}  // namespace

int main() {
  int there[2], back[2];
  REQUIRE(pipe(there));
  REQUIRE(pipe(back));
  const pid_t child = fork();
  if (child == 0) {
    close(there[1]);
    close(back[0]);
    return import(there[0], back[1]);
  }
  close(there[0]);
  close(back[1]);
  REQUIRE(cudaFree(nullptr));
  export_to(there[1], back[0]);
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("the other one ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}
