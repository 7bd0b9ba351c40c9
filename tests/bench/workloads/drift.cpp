// Programs whose sizes drift, so that no block fits where another one was, each copied or written on the
// device: vectors that grow by a step or by half, 64 caches that grow in turn as those of an inference do,
// and batches of sequences of any length. Mean and longest time of a request, of the whole, the most that was
// requested at once and the highest use of the device. One thread; a process for each kind.
#include <cstring>
#include <new>

#include "tests/bench/workloads/device_use.hpp"
#include "tests/bench/workloads/workloads.hpp"

namespace {

constexpr std::size_t kib = 1 << 10, mib = 1 << 20;

class drifting {
 public:
  explicit drifting(bench::allocator& memory) : memory_(memory) {
    memory_.free(memory_.allocate(256, own_.get()), 256, own_.get());
  }

  bench::held take(std::size_t bytes) {
    const double begin = bench::now();
    void* block = memory_.allocate(bytes, own_.get());
    const double spent = bench::now() - begin;
    in_requests_ += spent;
    longest_ = std::max(longest_, spent);
    ++requests_;
    requested_ += bytes;
    most_ = std::max(most_, requested_);
    return {block, bytes};
  }
  bench::held take_written(std::size_t bytes) {
    const bench::held made = take(bytes);
    REQUIRE(cudaMemsetAsync(made.block, 1, bytes, own_.get()));
    return made;
  }
  void give(const bench::held& gone) {
    if (gone.block == nullptr) return;
    memory_.free(gone.block, gone.bytes, own_.get());
    requested_ -= gone.bytes;
  }
  // As std::vector does.
  void grow(bench::held& vector, std::size_t bytes) {
    const bench::held made = take(bytes);
    if (vector.block != nullptr)
      REQUIRE(cudaMemcpyAsync(made.block, vector.block, vector.bytes, cudaMemcpyDeviceToDevice, own_.get()));
    give(vector);
    vector = made;
  }

  void emit(const char* name) {
    REQUIRE(cudaDeviceSynchronize());
    const double whole = bench::now() - start_;
    const std::optional<double> highest = watch_.highest_mib();
    bench::emit("drift", name, "request, mean", in_requests_ / 1e3 / requests_, "us");
    bench::emit("drift", name, "request, longest", longest_ / 1e3, "us");
    bench::emit("drift", name, "whole", whole / 1e6, "ms");
    bench::emit("drift", name, "requested at once at most", static_cast<double>(most_) / mib, "MiB");
    if (highest) bench::emit("drift", name, "highest use of the device", *highest, "MiB");
  }

 private:
  bench::allocator& memory_;
  const bench::stream own_;
  bench::device_watch watch_;
  const double start_ = bench::now();
  double in_requests_ = 0, longest_ = 0;
  int requests_ = 0;
  std::size_t requested_ = 0, most_ = 0;
};

void by_a_step(drifting& on, std::size_t unit) {
  bench::held vector;
  for (std::size_t units = 1; units <= 1500; ++units) on.grow(vector, units * unit);
  on.give(vector);
}

void by_half(drifting& on, std::size_t unit) {
  for (std::size_t repeat = 0; repeat < 20; ++repeat) {
    bench::held vector;
    for (double units = 1; units < 6000; units *= 1.5)
      on.grow(vector, static_cast<std::size_t>(units * static_cast<double>(unit)) + repeat * 4096);
    on.give(vector);
  }
}

void caches(drifting& on, std::size_t unit) {
  std::vector<bench::held> each(64);
  for (std::size_t units = 1; units <= 200; ++units)
    for (bench::held& one : each) on.grow(one, units * unit / 4);
  for (const bench::held& one : each) on.give(one);
}

void batches(drifting& on, std::size_t unit) {
  programs::sequence random(11);
  for (int batch = 0; batch < 500; ++batch) {
    const std::size_t length = 64 + random.next(1984);
    std::vector<bench::held> tensors;
    for (const std::size_t width : {1, 4, 3, 2, 8, 1})
      tensors.push_back(on.take_written(length * width * unit / 10));
    for (const bench::held& one : tensors) on.give(one);
  }
}

}  // namespace

void bench::drift(allocator& memory, const options& wanted) {
  const std::size_t unit = wanted.largest < 100000 ? 64 * kib : mib;
  using work = void (*)(drifting&, std::size_t);
  for (const auto& [name, run] : {std::pair<const char*, work>{"a vector that grows by a step", by_a_step},
                                  {"vectors that grow by half", by_half},
                                  {"64 caches that grow", caches},
                                  {"batches of any length", batches}}) {
    if (std::strstr(name, wanted.only) == nullptr) continue;
    drifting on(memory);
    run(on, unit);
    on.emit(name);
  }
}
