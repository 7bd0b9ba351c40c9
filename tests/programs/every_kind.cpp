// Every kind of memory that a chain may serve: device memory with and without a stream, managed and host
// memory, in sizes from 1 byte to 6 MiB, several rounds, some blocks kept to the end. Run plain and
// preloaded with every example configuration; argument: number of rounds. One thread. Prints a checksum of
// what it read back, its own counts last.
#include "tests/programs/support.hpp"

namespace {

using namespace programs;

struct block {
  char kind;
  void* address;
  std::size_t bytes;
  unsigned char value;
};

block take(char kind, std::size_t bytes, unsigned char value, cudaStream_t stream) {
  block fresh{kind, nullptr, bytes, value};
  if (kind == 'd') REQUIRE(counted_malloc(&fresh.address, bytes));
  if (kind == 'a') REQUIRE(counted_malloc_async(&fresh.address, bytes, stream));
  if (kind == 'm') REQUIRE(cudaMallocManaged(&fresh.address, bytes, cudaMemAttachGlobal));
  if (kind == 'h') REQUIRE(cudaMallocHost(&fresh.address, bytes));
  REQUIRE(cudaMemsetAsync(fresh.address, value, bytes, stream));
  return fresh;
}

void give(const block& old, cudaStream_t stream, checksum& sum) {
  REQUIRE(cudaStreamSynchronize(stream));
  verify_fill(old.address, old.bytes, old.value, sum);
  if (old.kind == 'd') REQUIRE(counted_free(old.address));
  if (old.kind == 'a') REQUIRE(counted_free_async(old.address, stream));
  if (old.kind == 'm') REQUIRE(counted_free(old.address));
  if (old.kind == 'h') REQUIRE(cudaFreeHost(old.address));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 2;
  const std::size_t sizes[] = {1, 256, 1000, 100'000, 300'000, 1'000'000, 3'000'000, 6u << 20};
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream));
  checksum sum;
  std::vector<block> kept;
  unsigned char value = 1;
  for (int round = 0; round < rounds; ++round) {
    std::vector<block> live;
    for (const std::size_t bytes : sizes) {
      for (const char kind : {'d', 'a', 'm', 'h'}) {
        if (bytes <= 1'000'000 || round == 0) live.push_back(take(kind, bytes, value++, stream));
      }
    }
    for (std::size_t i = 0; i < live.size(); ++i) {
      if (i % 5 == 0) {
        kept.push_back(live[i]);
      } else {
        give(live[i], stream, sum);
      }
    }
  }
  for (const block& last : kept) give(last, stream, sum);
  REQUIRE(cudaDeviceSynchronize());
  REQUIRE(cudaStreamDestroy(stream));
  REQUIRE(cudaGetLastError());
  std::printf("checksum %016llx\n", static_cast<unsigned long long>(sum.value()));
  counts.print();
}
