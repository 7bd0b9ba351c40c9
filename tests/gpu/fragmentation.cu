// Blocks of random sizes up to 1/32 of a budget in GiB, or in per cent of what is free ("95%"), which is the
// pool's maximum where a pool has one: filled until it refuses or the budget is used, thinned out, filled
// again. A refusal below 99 % of the budget is too early; natively there is none. Every block is filled and
// counted, so that a page that was taken too soon shows.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "tests/gpu/kernels.cuh"

namespace {

using clock_type = std::chrono::steady_clock;

struct piece {
  void* block;
  std::size_t bytes;
  std::uint32_t value;
};

std::size_t bytes_of(const char* text) {
  char* unit = nullptr;
  const std::size_t number = std::strtoull(text, &unit, 10);
  if (*unit != '%') return number << 30;
  std::size_t free = 0;
  std::size_t total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total));
  return free / 100 * number;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace programs;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 10;
  const std::size_t budget = argc > 2 ? bytes_of(argv[2]) : std::size_t{32} << 30;
  gpu::wrong_counter wrong;
  sequence random(11);
  std::vector<piece> live;
  std::size_t used = 0;
  int early = 0;
  double lowest = 1;
  double microseconds = 0;
  double longest = 0;
  double longest_free = 0;
  int calls = 0;
  const auto since = [](clock_type::time_point begin) {
    return std::chrono::duration<double, std::micro>(clock_type::now() - begin).count();
  };
  std::uint32_t value = 1;
  for (int round = 0; round < rounds; ++round) {
    for (;;) {
      const double exponent = 9 + static_cast<double>(random.next(1000)) / 1000 * (std::log2(budget) - 5 - 9);
      const std::size_t bytes = static_cast<std::size_t>(std::exp2(exponent)) / 512 * 512;
      if (used + bytes > budget - (64 << 20)) break;  // the counter and what is beside it
      void* block = nullptr;
      const clock_type::time_point begin = clock_type::now();
      const cudaError_t code = cudaMalloc(&block, bytes);
      const double spent = since(begin);
      microseconds += spent;
      longest = std::max(longest, spent);
      ++calls;
      if (code != cudaSuccess) {
        cudaGetLastError();
        lowest = std::min(lowest, static_cast<double>(used + bytes) / static_cast<double>(budget));
        early += static_cast<double>(used + bytes) < 0.99 * static_cast<double>(budget);
        break;
      }
      gpu::launch_fill(block, bytes, ++value, nullptr);
      live.push_back({block, bytes, value});
      used += bytes;
    }
    const std::size_t keep = budget / 100 * (30 + random.next(60));
    while (used > keep || (round == rounds - 1 && !live.empty())) {
      std::swap(live[random.next(live.size())], live.back());
      const piece last = live.back();
      live.pop_back();
      gpu::launch_count(last.block, last.bytes, last.value, 0, wrong.device(), nullptr);
      const clock_type::time_point begin = clock_type::now();
      REQUIRE(cudaFree(last.block));
      longest_free = std::max(longest_free, since(begin));
      used -= last.bytes;
    }
  }
  std::printf("time: cudaMalloc, mean %.1f us\n", microseconds / calls);
  std::printf("time: cudaMalloc, longest %.2f ms\n", longest / 1e3);
  std::printf("time: cudaFree, longest %.2f ms\n", longest_free / 1e3);
  std::printf("time: fullest before a refusal, of the budget %.2f %%\n", 100 * lowest);
  std::printf("%d rounds, %d refused too early, %llu wrong words\n", rounds, early, wrong.read());
  return early == 0 && wrong.read() == 0 ? 0 : 1;
}
