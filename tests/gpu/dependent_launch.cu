// Memory that is freed and had again in the order of one stream, between two kernels of which the second may
// begin before the first has ended (programmatic dependent launch). No kernel of the second kind may touch
// what the first one has before it waited for it; whether memory that it was only just given is such memory,
// no document says. Argument: `async`, by cudaFreeAsync and cudaMallocAsync, or `plain`, by cudaFree and
// cudaMalloc, of which cudaFree natively waits for the first kernel. Prints whether what the second kernel
// wrote at its very beginning is intact after the first one's late writes. For compute capability 9.0.
#include <cstring>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

constexpr int words = 1 << 20, threads = 256;
constexpr long long late_cycles = 20'000'000;

__global__ void write_late(int* memory) {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
  long long const begin = clock64();
  while (clock64() - begin < late_cycles) {
  }
  for (int i = threadIdx.x; i < words; i += blockDim.x) memory[i] = 1;
}
__global__ void write_at_once(int* memory) {
  for (int i = threadIdx.x; i < words; i += blockDim.x) memory[i] = 2;
}
__global__ void count_others(int const* memory, int* others) {
  for (int i = threadIdx.x; i < words; i += blockDim.x)
    if (memory[i] != 2) atomicAdd(others, 1);
}

}  // namespace

int main(int argc, char** argv) {
  bool const plain = argc > 1 && std::strcmp(argv[1], "plain") == 0;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  auto const take = [&](int** memory) {
    void** const at = reinterpret_cast<void**>(memory);
    return plain ? cudaMalloc(at, words * sizeof(int)) : cudaMallocAsync(at, words * sizeof(int), stream);
  };
  auto const give = [&](int* memory) { return plain ? cudaFree(memory) : cudaFreeAsync(memory, stream); };
  int* others = nullptr;
  REQUIRE(cudaMallocManaged(&others, sizeof *others));
  *others = 0;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = threads;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int wrong = 0;
  for (int round = 0; round < 20; ++round) {
    int* first = nullptr;
    int* second = nullptr;
    REQUIRE(take(&first));
    REQUIRE(cudaStreamSynchronize(stream));
    write_late<<<1, threads, 0, stream>>>(first);
    REQUIRE(give(first));
    REQUIRE(take(&second));
    REQUIRE(cudaLaunchKernelEx(&config, write_at_once, second));
    REQUIRE(cudaStreamSynchronize(stream));
    count_others<<<1, threads, 0, stream>>>(second, others);
    REQUIRE(cudaStreamSynchronize(stream));
    wrong += *others != 0;
    *others = 0;
    REQUIRE(give(second));
    REQUIRE(cudaStreamSynchronize(stream));
  }
  std::puts(wrong == 0 ? "intact" : "overwritten by its former owner");
}
