// Cost against the number of holes: blocks of 256 B to 2 KiB, each followed by a separator of 256 B that
// stays, then the blocks are freed, so that 10^2 to 10^6 holes lie between live blocks. Timed: making one
// hole, a pair that fits into the holes (a window of 64 live blocks of random sizes, so that no
// last-in-first-out cache answers), and a pair that fits into none. One thread, one stream.
#include <array>

#include "tests/bench/workloads/workloads.hpp"

namespace {

class window {
 public:
  window(bench::allocator& memory, cudaStream_t stream) : memory_(memory), stream_(stream) {}
  ~window() {
    for (bench::held& each : held_) drop(each);
  }
  window(const window&) = delete;
  window& operator=(const window&) = delete;

  void exchange(std::size_t bytes) {
    bench::held& oldest = held_[next_++ % held_.size()];
    drop(oldest);
    oldest = {memory_.allocate(bytes, stream_), bytes};
  }

 private:
  void drop(bench::held& which) {
    if (which.block != nullptr) memory_.free(which.block, which.bytes, stream_);
    which.block = nullptr;
  }

  bench::allocator& memory_;
  cudaStream_t stream_;
  std::array<bench::held, 64> held_;
  std::size_t next_ = 0;
};

}  // namespace

void bench::holes(allocator& memory, const options& wanted) {
  const stream own;
  constexpr std::size_t separator = 256;
  for (std::size_t count = 100; count <= wanted.largest; count *= 10) {
    const std::string name = std::to_string(count) + " holes";
    std::vector<bench::held> fragments, separators;
    fragments.reserve(count);
    separators.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t bytes = (i % 8 + 1) * 256;
      fragments.push_back({memory.allocate(bytes, own.get()), bytes});
      separators.push_back({memory.allocate(separator, own.get()), separator});
    }
    quiet_processor::find();
    const double begin = now();
    for (const bench::held& each : fragments) memory.free(each.block, each.bytes, own.get());
    emit("holes", name, "free", (now() - begin) / static_cast<double>(count), "ns");
    REQUIRE(cudaDeviceSynchronize());

    programs::sequence random(7);
    {
      window small(memory, own.get());
      emit("holes", name, "pair that fits",
           median_of_batches(wanted.seconds * 1e9, [&] { small.exchange((random.next(8) + 1) * 256); }),
           "ns");
    }
    {
      window large(memory, own.get());
      emit("holes", name, "pair that fits none",
           median_of_batches(wanted.seconds * 1e9, [&] { large.exchange((random.next(8) + 1) * 65536); }),
           "ns");
    }
    for (const bench::held& each : separators) memory.free(each.block, each.bytes, own.get());
    REQUIRE(cudaDeviceSynchronize());
  }
}
