// A budget of 32 GiB that is filled with blocks of 512 B to 1 GiB, evenly in the logarithm, thinned out to a
// random part, and filled again, every block written on the device: the times of requests, of frees, and of
// the whole. Then the same where each block is used until it is freed, so that the GPU is far behind the
// frees: natively each of them waits for it, and no request does. One thread; a refusal counts as a free that
// came too late.
#include <cmath>
#include <new>

#include "tests/bench/workloads/workloads.hpp"

namespace {

void fill_and_thin_out(bench::allocator& memory, int rounds, int last_uses, const std::string& name) {
  const std::size_t budget = std::size_t{32} << 30;
  programs::sequence random(11);
  std::vector<bench::held> live;
  std::vector<double> each;
  std::vector<double> frees;
  std::size_t used = 0;
  const bench::stream own;
  const auto give_until = [&](std::size_t most) {
    while (used > most) {
      std::swap(live[random.next(live.size())], live.back());
      const bench::held& last = live.back();
      for (int use = 0; use < last_uses; ++use)
        REQUIRE(cudaMemsetAsync(last.block, use, last.bytes, own.get()));
      used -= last.bytes;
      const double begin = bench::now();
      memory.free(last.block, last.bytes, own.get());
      frees.push_back((bench::now() - begin) / 1e3);
      live.pop_back();
    }
  };
  memory.free(memory.allocate(256, own.get()), 256, own.get());
  const double start = bench::now();
  for (int round = 0; round < rounds; ++round) {
    for (;;) {
      const double exponent = 9 + static_cast<double>(random.next(21000)) / 1000;
      const std::size_t bytes = static_cast<std::size_t>(std::exp2(exponent));
      if (used + bytes > budget - (std::size_t{64} << 20)) break;
      const double begin = bench::now();
      void* block = nullptr;
      try {
        block = memory.allocate(bytes, own.get());
      } catch (const std::bad_alloc&) {
      }
      each.push_back((bench::now() - begin) / 1e3);
      if (block == nullptr) break;
      REQUIRE(cudaMemsetAsync(block, 1, bytes, own.get()));
      live.push_back({block, bytes});
      used += bytes;
    }
    give_until(round + 1 == rounds ? 0 : budget / 100 * (30 + random.next(60)));
  }
  REQUIRE(cudaDeviceSynchronize());
  const double spent = bench::now() - start;
  double sum = 0;
  for (const double one : each) sum += one;
  double all_frees = 0;
  for (const double one : frees) all_frees += one;
  std::sort(each.begin(), each.end());
  bench::emit("budget", name, "request, mean", sum / static_cast<double>(each.size()), "us");
  bench::emit("budget", name, "request, 99 of 100", each[each.size() - 1 - each.size() / 100], "us");
  bench::emit("budget", name, "request, longest", each.back(), "us");
  bench::emit("budget", name, "free, mean", all_frees / static_cast<double>(frees.size()), "us");
  bench::emit("budget", name, "free, longest", *std::max_element(frees.begin(), frees.end()), "us");
  bench::emit("budget", name, "whole", spent / 1e6, "ms");
}

}  // namespace

void bench::budget(allocator& memory, const options& wanted) {
  const int rounds = wanted.largest < 100000 ? 2 : 8;
  fill_and_thin_out(memory, rounds, 0, "32 GiB");
  fill_and_thin_out(memory, rounds, 4, "32 GiB, used until it is freed");
}
