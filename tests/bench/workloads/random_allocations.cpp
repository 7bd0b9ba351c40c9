// RMM's own random-allocations benchmark, with its parameters: 1000 to 100000 allocations of 1 byte to a
// maximum of 1 MiB to 4 GiB, evenly distributed, 73 % allocations against frees of a random block, at most
// 16000 MiB in use, the default stream, the same generator and seed. The first round (growth included) and
// the median of the later ones are told apart; pools that are filled at their start are made before, as RMM's
// are. One thread; one milliseconds figure a cell.
#include <cstring>
#include <new>
#include <random>

#include "tests/bench/workloads/workloads.hpp"

namespace {

constexpr std::size_t mebibyte = 1 << 20;

void one_round(bench::allocator& memory, std::size_t count, std::size_t largest_size) {
  constexpr std::size_t most_in_use = 16000 * mebibyte;
  std::default_random_engine random;
  std::uniform_int_distribution<std::size_t> size_of(1, largest_size), index_of(0, count - 1);
  std::uniform_int_distribution<int> chance(0, 99);
  std::vector<bench::held> live;
  std::size_t made = 0, in_use = 0;
  for (std::size_t step = 0; step < 2 * count; ++step) {
    const std::size_t bytes = size_of(random);
    const bool allocate =
        live.empty() || (chance(random) < 73 && made < count && in_use + bytes < most_in_use);
    if (allocate) {
      try {
        live.push_back({memory.allocate(bytes, nullptr), bytes});
        ++made;
        in_use += bytes;
        continue;
      } catch (const std::bad_alloc&) {
        if (live.empty()) continue;
      }
    }
    bench::held& chosen = live[index_of(random) % live.size()];
    memory.free(chosen.block, chosen.bytes, nullptr);
    in_use -= chosen.bytes;
    chosen = live.back();
    live.pop_back();
  }
  for (const bench::held& each : live) memory.free(each.block, each.bytes, nullptr);
}

}  // namespace

void bench::random_allocations(allocator& memory, const options& wanted) {
  memory.free(memory.allocate(256, nullptr), 256, nullptr);
  for (std::size_t count : {std::size_t{1000}, std::size_t{10000}, std::size_t{100000}}) {
    if (count > wanted.largest) break;
    for (std::size_t largest_size : {1, 4, 64, 256, 1024, 4096}) {
      const std::string name = std::to_string(count) + " of " + size_name(largest_size * mebibyte);
      if (std::strstr(name.c_str(), wanted.only) == nullptr) continue;
      std::vector<double> rounds;
      double first = 0;
      quiet_processor::find();
      // Five at least, in four times the time: where large blocks come to rest the second is not like the
      // later ones.
      const double start = now(), end = start + wanted.seconds * 1e9, last = start + wanted.seconds * 4e9;
      while (rounds.empty() || (now() < (rounds.size() < 5 ? last : end) && rounds.size() < 100)) {
        const double begin = now();
        one_round(memory, count, largest_size * mebibyte);
        const double spent = now() - begin;
        // A round that alone takes ten times as long as all of them may is not repeated.
        if (first != 0 || spent > wanted.seconds * 1e10) rounds.push_back(spent);
        if (first == 0) first = spent;
        if (rounds.size() > 1 && quiet_processor::disturbed()) {
          rounds.pop_back();
          quiet_processor::find();
        }
      }
      emit("random_allocations", name, "first", first / 1e6, "ms");
      emit("random_allocations", name, "round", median(std::move(rounds)) / 1e6, "ms");
    }
  }
}
