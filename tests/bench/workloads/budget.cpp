// A budget of 32 GiB that is filled with blocks of 512 B to 1 GiB, evenly in the logarithm, thinned out to a
// random part, and filled again, every block written on the device: the mean time of a request, its 99th
// percentile, and of the whole. One thread; a refusal counts as a free that came too late.
#include <cmath>
#include <new>

#include "tests/bench/workloads/workloads.hpp"

void bench::budget(allocator& memory, const options& wanted) {
  const std::size_t budget = std::size_t{32} << 30;
  const int rounds = wanted.largest < 100000 ? 2 : 8;
  programs::sequence random(11);
  std::vector<held> live;
  std::vector<double> each;
  std::size_t used = 0;
  const stream own;
  const auto give_until = [&](std::size_t most) {
    while (used > most) {
      std::swap(live[random.next(live.size())], live.back());
      used -= live.back().bytes;
      memory.free(live.back().block, live.back().bytes, own.get());
      live.pop_back();
    }
  };
  memory.free(memory.allocate(256, own.get()), 256, own.get());
  const double start = now();
  for (int round = 0; round < rounds; ++round) {
    for (;;) {
      const double exponent = 9 + static_cast<double>(random.next(21000)) / 1000;
      const std::size_t bytes = static_cast<std::size_t>(std::exp2(exponent));
      if (used + bytes > budget - (std::size_t{64} << 20)) break;
      const double begin = now();
      void* block = nullptr;
      try {
        block = memory.allocate(bytes, own.get());
      } catch (const std::bad_alloc&) {
      }
      each.push_back((now() - begin) / 1e3);
      if (block == nullptr) break;
      REQUIRE(cudaMemsetAsync(block, 1, bytes, own.get()));
      live.push_back({block, bytes});
      used += bytes;
    }
    give_until(round + 1 == rounds ? 0 : budget / 100 * (30 + random.next(60)));
  }
  REQUIRE(cudaDeviceSynchronize());
  const double spent = now() - start;
  double sum = 0;
  for (const double one : each) sum += one;
  std::sort(each.begin(), each.end());
  emit("budget", "32 GiB", "request, mean", sum / static_cast<double>(each.size()), "us");
  emit("budget", "32 GiB", "request, 99 of 100", each[each.size() - 1 - each.size() / 100], "us");
  emit("budget", "32 GiB", "request, longest", each.back(), "us");
  emit("budget", "32 GiB", "whole", spent / 1e6, "ms");
}
