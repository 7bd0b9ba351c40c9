// What the driver does with plain memory that is freed in the order of a stream without work, beside many
// streams with more work than the device has queues, all of which waits for the host: whether that stream is
// synchronised all the same. Streams share queues of the device, and a stream waits for what lies before it
// in its queue. Asked of a stream made before the others, one made after, and one of the highest priority.
// Prints whether all of them ended, and how long each took at most.
#include <algorithm>

#include "tests/gpu/beside_a_kernel.cuh"

namespace {

using namespace programs;

constexpr std::size_t bytes = std::size_t{64} << 20;
int failed = 0;

CUdeviceptr make() {
  CUdeviceptr block = 0;
  REQUIRE(cuMemAlloc(&block, bytes));
  REQUIRE(cuMemsetD8(block, 1, bytes));
  REQUIRE(cudaDeviceSynchronize());
  return block;
}

double longest = 0;

// The kernels end after a second, if nothing else does.
void free_on(cudaStream_t own, CUdeviceptr block, int streams, const spinning& at, const char* what) {
  kernel_end end(at.flag, std::chrono::seconds(1));
  const clock_type::time_point begin = clock_type::now();
  REQUIRE(cuMemFreeAsync(block, own));
  REQUIRE(cuStreamSynchronize(own));
  const double spent = ms_since(begin);
  const bool waited = !end.still_ran();
  failed += waited ? 1 : 0;
  longest = std::max(longest, spent);
  if (waited) std::printf("%d streams, %s: waited\n", streams, what);
}

void ask(int streams, int each) {
  spinning at;
  cudaStream_t before = nullptr, after = nullptr, urgent = nullptr;
  int least = 0, greatest = 0;
  REQUIRE(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  REQUIRE(cudaStreamCreateWithFlags(&before, cudaStreamNonBlocking));
  cudaStream_t many[512];
  for (int i = 0; i < streams; ++i) REQUIRE(cudaStreamCreateWithFlags(&many[i], cudaStreamNonBlocking));
  REQUIRE(cudaStreamCreateWithFlags(&after, cudaStreamNonBlocking));
  REQUIRE(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, greatest));
  const CUdeviceptr blocks[] = {make(), make(), make()};
  // The first such call of a process takes long.
  const CUdeviceptr first = make();
  REQUIRE(cuMemFreeAsync(first, before));
  REQUIRE(cudaDeviceSynchronize());
  const auto launch = [&] {
    *at.flag = 0;
    for (int n = 0; n < each; ++n) {
      for (int i = 0; i < streams; ++i) wait_for<<<1, 1, 0, many[i]>>>(at.flag_there);
    }
  };
  launch();
  free_on(before, blocks[0], streams, at, "a stream made before");
  REQUIRE(cudaDeviceSynchronize());
  launch();
  free_on(after, blocks[1], streams, at, "a stream made after");
  REQUIRE(cudaDeviceSynchronize());
  launch();
  free_on(urgent, blocks[2], streams, at, "a stream of high priority");
  REQUIRE(cudaDeviceSynchronize());
  for (int i = 0; i < streams; ++i) REQUIRE(cudaStreamDestroy(many[i]));
}

}  // namespace

int main() {
  REQUIRE(cudaFree(nullptr));
  for (const int streams : {1, 8, 32, 128, 250}) {
    for (const int each : {1, 2, 8}) {
      longest = 0;
      ask(streams, each);
      std::printf("time: %d streams of %d kernels: %.3f ms\n", streams, each, longest);
    }
  }
  std::printf("waited: %d\n", failed);
}
