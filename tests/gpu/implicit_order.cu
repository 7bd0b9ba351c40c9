// tests/programs/implicit_order.cpp with kernels: nearly all of the device is freed in the order of a stream
// after work of another one, which runs on, and most of it asked for again on a stream that waits for
// nothing. Only a rule of CUDA's, or a wait for an event, puts that work before the free. Argument:
// `blocking`, used on the legacy stream and freed on a blocking one; `legacy`, the other way round; `event`,
// freed on a stream that only waits for an event. Prints what the driver says of the stream that frees, the
// codes, and whether what the new owner wrote is intact after the late writes of the old one. Alone on its
// device.
#include <cstring>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

constexpr std::size_t gib = std::size_t{1} << 30;

__global__ void write_late(int const volatile* stop, char* memory, std::size_t bytes, char value) {
  while (*stop == 0) {
  }
  std::size_t const step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes; i += step)
    memory[i] = value;
}
__global__ void write_all(char* memory, std::size_t bytes, char value) {
  std::size_t const step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes; i += step)
    memory[i] = value;
}
__global__ void count_others(char const* memory, std::size_t bytes, char value, unsigned long long* others) {
  std::size_t const step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes; i += step)
    if (memory[i] != value) atomicAdd(others, 1ull);
}

cudaStream_t make_stream(unsigned flags) {
  cudaStream_t made = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&made, flags));
  return made;
}

void say_whether_busy(char const* what, cudaError_t code) {
  std::printf("%s: %s\n", what, code == cudaErrorNotReady ? "not ready" : cudaGetErrorName(code));
}

}  // namespace

int main(int argc, char** argv) {
  char const* const how = argc > 1 ? argv[1] : "";
  bool const by_event = std::strcmp(how, "event") == 0, on_legacy = std::strcmp(how, "legacy") == 0;
  cudaStream_t const other = make_stream(by_event ? cudaStreamNonBlocking : cudaStreamDefault);
  cudaStream_t const uses = by_event    ? make_stream(cudaStreamNonBlocking)
                            : on_legacy ? other
                                        : cudaStreamLegacy;
  cudaStream_t const frees = on_legacy ? cudaStreamLegacy : other;
  cudaStream_t const asking = make_stream(cudaStreamNonBlocking);
  cudaEvent_t over = nullptr, freed = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&over, cudaEventDisableTiming));
  REQUIRE(cudaEventCreateWithFlags(&freed, cudaEventDisableTiming));
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 64));
  int volatile* const stop = static_cast<int volatile*>(pinned);
  unsigned long long* others = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&others), sizeof *others));
  REQUIRE(cudaMemset(others, 0, sizeof *others));
  *stop = 1;  // all kernels are loaded before one does not end
  char* const nothing = reinterpret_cast<char*>(others);
  write_late<<<1, 32, 0, uses>>>(stop, nothing, 0, 1);
  write_all<<<1, 32, 0, asking>>>(nothing, 0, 1);
  count_others<<<1, 32, 0, asking>>>(nothing, 0, 1, others);
  REQUIRE(cudaDeviceSynchronize());
  for (int round = 0; round < 3; ++round) {
    std::size_t free = 0, total = 0;
    REQUIRE(cudaMemGetInfo(&free, &total));
    std::size_t const all = (free / gib - 2) * gib, asked = all - 4 * gib;
    void* block = nullptr;
    void* next = nullptr;
    REQUIRE(cudaMallocAsync(&block, all, frees));
    REQUIRE(cudaStreamSynchronize(frees));
    *stop = 0;
    write_late<<<4, 256, 0, uses>>>(stop, static_cast<char*>(block), all, 1);
    if (by_event) {
      REQUIRE(cudaEventRecord(over, uses));
      REQUIRE(cudaStreamWaitEvent(frees, over, 0));
      say_whether_busy("a stream that waits for an event", cudaStreamQuery(frees));
    }
    REQUIRE(cudaFreeAsync(block, frees));
    REQUIRE(cudaEventRecord(freed, frees));
    say_whether_busy("an event after the free", cudaEventQuery(freed));
    int const code = cudaMallocAsync(&next, asked, asking);
    std::printf("asked for beside the work: %d\n", code);
    REQUIRE(code);
    write_all<<<64, 256, 0, asking>>>(static_cast<char*>(next), asked, 2);
    *stop = 1;
    REQUIRE(cudaStreamSynchronize(uses));
    count_others<<<64, 256, 0, asking>>>(static_cast<char const*>(next), asked, 2, others);
    REQUIRE(cudaStreamSynchronize(asking));
    unsigned long long wrong = 0;
    REQUIRE(cudaMemcpy(&wrong, others, sizeof wrong, cudaMemcpyDeviceToHost));
    std::puts(wrong == 0 ? "intact" : "overwritten by its former owner");
    REQUIRE(cudaFreeAsync(next, asking));
    REQUIRE(cudaDeviceSynchronize());
  }
  std::puts("done");
}
