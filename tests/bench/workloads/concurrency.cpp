// Is concurrency kept? Four streams with 64 kernels each of about 20 us, every kernel with a temporary (64
// KiB to 64 MiB) that is allocated before it and freed after its launch, against the same launches with no
// allocation at all. 1 means that allocation costs nothing; 4 that the streams ran one after the other. One
// thread. On the simulated CUDA times are its own.
#include <array>

#include "tests/bench/workloads/spin.hpp"
#include "tests/bench/workloads/workloads.hpp"

namespace {

constexpr int streams = 4, rounds = 64;

double run(bench::allocator* memory, std::size_t bytes, std::array<bench::stream, streams>& on, void* fixed) {
  const double begin = bench::now_of_spins();
  for (int round = 0; round < rounds; ++round) {
    for (bench::stream& each : on) {
      void* block = memory == nullptr ? fixed : memory->allocate(bytes, each.get());
      bench::spin(block, each.get());
      if (memory != nullptr) memory->free(block, bytes, each.get());
    }
  }
  REQUIRE(cudaDeviceSynchronize());
  return bench::now_of_spins() - begin;
}

}  // namespace

void bench::concurrency(allocator& memory, const options& wanted) {
  std::array<stream, streams> on;
  void* fixed = memory.allocate(4096, on[0].get());
  REQUIRE(cudaDeviceSynchronize());
  for (std::size_t kib : {64, 1 << 10, 8 << 10, 64 << 10}) {
    const std::size_t bytes = kib << 10;
    if (wanted.bytes != 0 && wanted.bytes != bytes) continue;
    std::vector<double> with, without;
    for (int repeat = 0; repeat < 8; ++repeat) {
      without.push_back(run(nullptr, 0, on, fixed));
      with.push_back(run(&memory, bytes, on, fixed));
    }
    const std::string name = "4 streams x 64 kernels, " + size_name(bytes);
    const double base = median(std::move(without)), loaded = median(std::move(with));
    emit("concurrency", name, "time", loaded / 1e3, "us");
    emit("concurrency", name, "against no allocation", loaded / base, "times");
  }
  memory.free(fixed, 4096, on[0].get());
}
