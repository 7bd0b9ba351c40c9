// Memory that is allocated by one thread on its stream and freed by another on another stream: 1 to 8
// couples. Blocks go over 64 at a time; for stream-ordered allocators one event a batch orders the consumer's
// stream after the producer's, as a correct program must. Pairs of all couples together, in millions a
// second.
#include <array>

#include "tests/bench/workloads/workloads.hpp"

namespace {

constexpr std::size_t batch_size = 64, slots = 4;

struct batch {
  std::array<void*, batch_size> blocks{};
  cudaEvent_t allocated = nullptr;
  std::atomic<bool> full{false};
};

std::size_t size_of(std::size_t index) {
  return std::size_t{1024} << index % 7;
}

struct couple {
  couple() {
    for (batch& each : ring) REQUIRE(cudaEventCreateWithFlags(&each.allocated, cudaEventDisableTiming));
  }
  couple(const couple&) = delete;
  couple& operator=(const couple&) = delete;
  ~couple() {
    for (batch& each : ring) REQUIRE(cudaEventDestroy(each.allocated));
  }

  void produce(bench::allocator& memory, double until) {
    std::size_t turn = 0;
    for (; bench::now() < until; ++turn) {
      batch& next = ring[turn % slots];
      while (next.full.load(std::memory_order_acquire)) std::this_thread::yield();
      for (std::size_t i = 0; i < batch_size; ++i) next.blocks[i] = memory.allocate(size_of(i), from.get());
      if (memory.stream_ordered()) REQUIRE(cudaEventRecord(next.allocated, from.get()));
      next.full.store(true, std::memory_order_release);
    }
    ended.store(true, std::memory_order_release);
  }

  std::uint64_t consume(bench::allocator& memory) {
    std::uint64_t turn = 0;
    for (;; ++turn) {
      batch& next = ring[turn % slots];
      while (!next.full.load(std::memory_order_acquire)) {
        if (ended.load(std::memory_order_acquire) && !next.full.load(std::memory_order_acquire))
          return turn * batch_size;
        std::this_thread::yield();
      }
      if (memory.stream_ordered()) REQUIRE(cudaStreamWaitEvent(to.get(), next.allocated, 0));
      for (std::size_t i = 0; i < batch_size; ++i) memory.free(next.blocks[i], size_of(i), to.get());
      next.full.store(false, std::memory_order_release);
    }
  }

  bench::stream from, to;
  std::array<batch, slots> ring;
  std::atomic<bool> ended{false};
};

}  // namespace

void bench::producer_consumer(allocator& memory, const options& wanted) {
  for (int couples = 1; couples <= wanted.threads / 2; couples *= 2) {
    std::vector<double> rates;
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<couple> all(static_cast<std::size_t>(couples));
      std::atomic<std::uint64_t> done{0};
      const double spent = in_threads(couples * 2, [&](int own) {
        couple& mine = all[static_cast<std::size_t>(own / 2)];
        if (own % 2 == 0) {
          mine.produce(memory, now() + wanted.seconds * 1e9);
        } else {
          done += mine.consume(memory);
        }
      });
      rates.push_back(static_cast<double>(done.load()) / spent * 1e3);
    }
    emit("producer_consumer", std::to_string(couples) + " couples", "throughput", median(std::move(rates)),
         "M pairs/s");
  }
}
