// Throughput of 1 to 16 threads, each with a stream of its own: small blocks (1 to 64 KiB, a pair at a time)
// and mixed ones, evenly in the logarithm: 256 B to 64 MiB with eight held at a time, 256 B to 16 MiB
// with 32. Pairs of all threads together, in millions a second. Few threads start on the quietest processors,
// each on a core of its own. No GPU work.
#include <array>
#include <cstring>

#include "tests/bench/workloads/workloads.hpp"

namespace {

using bench::now;

constexpr int pairs_at_a_time = 32;  // between two looks at the clock

std::uint64_t small_blocks(bench::allocator& memory, int own, double until) {
  const bench::stream mine;
  std::uint64_t done = 0;
  for (auto i = static_cast<unsigned>(own); now() < until; done += pairs_at_a_time) {
    for (int each = 0; each < pairs_at_a_time; ++each, ++i) {
      const std::size_t bytes = std::size_t{1024} << i % 7;
      memory.free(memory.allocate(bytes, mine.get()), bytes, mine.get());
    }
  }
  return done;
}

// Sizes of so many doublings from 256 B on.
template <std::size_t held_at_once, std::size_t doublings>
std::uint64_t mixed_blocks(bench::allocator& memory, int own, double until) {
  const bench::stream mine;
  programs::sequence random(static_cast<std::uint64_t>(own) + 1);
  std::array<bench::held, held_at_once> live;
  std::uint64_t done = 0;
  for (; now() < until; done += pairs_at_a_time) {
    for (int each = 0; each < pairs_at_a_time; ++each) {
      bench::held& chosen = live[random.next(live.size())];
      if (chosen.block != nullptr) memory.free(chosen.block, chosen.bytes, mine.get());
      const std::size_t power = std::size_t{256} << random.next(doublings);
      chosen.bytes = power + random.next(power);
      chosen.block = memory.allocate(chosen.bytes, mine.get());
    }
  }
  for (const bench::held& each : live)
    if (each.block != nullptr) memory.free(each.block, each.bytes, mine.get());
  return done;
}

}  // namespace

void bench::threads(allocator& memory, const options& wanted) {
  using work = std::uint64_t (*)(allocator&, int, double);
  for (const auto& [what, run] : {std::pair<const char*, work>{"small", small_blocks},
                                  {"mixed", mixed_blocks<8, 18>},
                                  {"mixed, 32 held", mixed_blocks<32, 16>}}) {
    if (std::strstr(what, wanted.only) == nullptr) continue;
    for (int many = wanted.from; many <= wanted.threads; many *= 2) {
      std::vector<double> rates;
      for (int repeat = 0; repeat < 3; ++repeat) {
        const std::vector<int> places = bench::quiet_processor::ranked();
        std::atomic<std::uint64_t> done{0};
        const double spent = in_threads(many, [&, work_of = run](int own) {
          if (!places.empty())
            bench::quiet_processor::start_on(places[static_cast<std::size_t>(own) % places.size()]);
          done += work_of(memory, own, now() + wanted.seconds * 1e9);
        });
        rates.push_back(static_cast<double>(done.load()) / spent * 1e3);
      }
      emit("threads", std::to_string(many) + " threads, " + what, "throughput", median(std::move(rates)),
           "M pairs/s");
    }
  }
}
