// Work on memory of cudaMalloc that a chain may take from the host (HMM, ATS): fills, copies in every
// direction that names the device, frees while work is under way, what the driver says of a block. Run plain
// and preloaded with chains of `system` by the integration and GPU tests; arguments: number of rounds, GiB
// that are too many. One thread. Ends with 77 on a device that does not reach pageable memory.
#include <cuda.h>

#include <algorithm>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

// Base and size by every call that tells them, from inside the block.
void show_range(void* block, std::size_t bytes) {
  const auto base = reinterpret_cast<CUdeviceptr>(block);
  CUdeviceptr begin = 0;
  std::size_t length = 0;
  const CUresult range = cuMemGetAddressRange(&begin, &length, base + bytes / 2);
  std::printf("range: code %d, base %d, %zu bytes\n", range, begin == base, length);
  begin = 0;
  length = 0;
  const CUresult first =
      cuPointerGetAttribute(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + bytes / 2);
  const CUresult second = cuPointerGetAttribute(&length, CU_POINTER_ATTRIBUTE_RANGE_SIZE, base + bytes / 2);
  std::printf("attributes: codes %d and %d, base %d, %zu bytes\n", first, second, begin == base, length);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  int reaches = 0;
  REQUIRE(cudaDeviceGetAttribute(&reaches, cudaDevAttrPageableMemoryAccess, 0));
  if (reaches == 0) {
    std::printf("the device does not reach pageable memory\n");
    return 77;
  }
  void* asked = nullptr;
  REQUIRE(counted_malloc(&asked, 3'000'000));
  show_range(asked, 3'000'000);
  REQUIRE(counted_free(asked));

  cudaStream_t streams[2] = {};
  for (cudaStream_t& stream : streams) REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  checksum sum;
  sequence random(5);
  for (int round = 0; round < rounds; ++round) {
    const std::size_t bytes = 1 + random.next(round % 8 == 0 ? 20'000'000 : 300'000);
    const auto value = static_cast<unsigned char>(round + 1);
    const cudaStream_t stream = streams[round % 2];
    void* from = nullptr;
    void* to = nullptr;
    REQUIRE(counted_malloc(&from, bytes));
    if (round % 2 == 0) {
      REQUIRE(counted_malloc(&to, bytes));
    } else {
      REQUIRE(counted_malloc_async(&to, bytes, stream));
    }
    std::vector<unsigned char> host(bytes, value);
    REQUIRE(cudaMemsetAsync(to, 0, bytes, stream));
    REQUIRE(cudaMemcpyAsync(from, host.data(), bytes, cudaMemcpyHostToDevice, stream));
    REQUIRE(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
    REQUIRE(counted_free(from));  // the copy may still be under way
    std::fill(host.begin(), host.end(), static_cast<unsigned char>(0));
    REQUIRE(cudaMemcpyAsync(host.data(), to, bytes, cudaMemcpyDeviceToHost, stream));
    REQUIRE(cudaStreamSynchronize(stream));
    sum.add(host.data(), bytes);
    if (round % 2 == 0) {
      REQUIRE(counted_free(to));
    } else {
      REQUIRE(counted_free_async(to, stream));
    }
  }
  if (argc > 2) {
    void* none = nullptr;
    const int code = counted_malloc(&none, std::strtoull(argv[2], nullptr, 10) << 30);
    std::printf("too many: code %d, last error %d\n", code, cudaGetLastError());
  }
  REQUIRE(cudaDeviceSynchronize());
  for (const cudaStream_t stream : streams) REQUIRE(cudaStreamDestroy(stream));
  REQUIRE(cudaGetLastError());
  std::printf("checksum %016llx\n", static_cast<unsigned long long>(sum.value()));
  counts.print();
}
