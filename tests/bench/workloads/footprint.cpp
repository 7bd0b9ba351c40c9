// How much of the device a program of many threads and streams takes for what it needs: eight threads, each
// with six streams of all kinds, hold up to twelve blocks of 512 B to 32 MiB, fill each on its stream and
// free it there; now and then a thread waits for a stream. Time of an operation, and the highest use of the
// device beyond what it was at the start, as NVML tells it every 0.2 ms; with a seed, also the most that the
// threads held at once (footprint_parts.py). On the simulated CUDA the threads take turns in an order of
// their own, each operation and each fill takes about as long as on an H200, and the driver itself tells what
// was in use: figures of memory that repeat, of allocators that wait by the clock nearly so.
#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "tests/bench/workloads/device_use.hpp"
#include "tests/bench/workloads/workloads.hpp"
#include "tests/simulated_cuda/simulated.h"

namespace {

// Who may go on, one thread at a time, in an order that does not depend on how long anything takes.
class turns {
 public:
  turns(int threads, std::uint64_t seed) : random_(99 + seed), waiting_(static_cast<std::size_t>(threads)) {
    for (int own = 0; own < threads; ++own) waiting_[static_cast<std::size_t>(own)] = own;
  }
  void begin(int own) {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [&] { return waiting_[at_] == own; });
  }
  // The turn of `own` is over; `last`: it wants no other.
  void end(bool last) {
    const std::lock_guard lock(mutex_);
    if (last) waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at_));
    if (!waiting_.empty()) at_ = random_.next(waiting_.size());
    moved_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  programs::sequence random_;
  std::vector<int> waiting_;
  std::size_t at_ = 0;
};

// What the threads hold together, now and at most.
class holdings {
 public:
  void more(std::size_t bytes) {
    const std::size_t all = now_ += bytes;
    for (std::size_t most = most_; all > most && !most_.compare_exchange_weak(most, all);) {
    }
  }
  void less(std::size_t bytes) { now_ -= bytes; }
  std::size_t most() const { return most_; }

 private:
  std::atomic<std::size_t> now_{0}, most_{0};
};

constexpr int streams_each = 6;
// On the simulated CUDA, as an H200 has it: an operation of eight threads, a fill, its bytes in a
// microsecond.
constexpr unsigned long long an_operation_ns = 5000, a_fill_ns = 4000, fills_bytes_ns = 2500;

class worker {
 public:
  worker(int own, std::uint64_t seed, holdings& all, turns* order)
      : random_(1000 * seed + static_cast<std::uint64_t>(own) + 1), own_(own), all_(all), order_(order) {
    int lowest = 0, highest = 0;
    REQUIRE(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    REQUIRE(cudaStreamCreate(&on_[2]));
    REQUIRE(cudaStreamCreateWithFlags(&on_[3], cudaStreamNonBlocking));
    REQUIRE(cudaStreamCreateWithPriority(&on_[4], cudaStreamNonBlocking, highest));
    REQUIRE(cudaStreamCreateWithPriority(&on_[5], cudaStreamDefault, lowest));
  }
  worker(const worker&) = delete;
  ~worker() {
    for (int i = 2; i < streams_each; ++i) REQUIRE(cudaStreamDestroy(on_[i]));
  }

  void run(bench::allocator& memory, std::size_t operations) {
    for (std::size_t i = 0; i < operations; ++i) {
      if (order_ != nullptr) order_->begin(own_);
      step(memory, i);
      if (order_ != nullptr) order_->end(i + 1 == operations);
    }
    for (const piece& each : live_)
      if (each.block != nullptr) memory.free(each.block, each.bytes, each.on);
  }

 private:
  struct piece {
    void* block = nullptr;
    std::size_t bytes = 0;
    cudaStream_t on = nullptr;
  };
  void step(bench::allocator& memory, std::size_t i) {
    if (order_ != nullptr) simulated_control::advance(an_operation_ns);
    piece& chosen = live_[random_.next(live_.size())];
    if (chosen.block != nullptr) {
      all_.less(chosen.bytes);
      memory.free(chosen.block, chosen.bytes, chosen.on);
      chosen.block = nullptr;
    } else {
      const std::size_t power = std::size_t{512} << random_.next(16);
      chosen.bytes = power + random_.next(power);
      chosen.on = on_[random_.next(streams_each)];
      chosen.block = memory.allocate(chosen.bytes, chosen.on);
      all_.more(chosen.bytes);
      fill(chosen);
    }
    if (i % 64 == 63) REQUIRE(cudaStreamSynchronize(on_[random_.next(streams_each)]));
  }
  void fill(const piece& what) {
    if (order_ == nullptr) {
      REQUIRE(cudaMemsetAsync(what.block, 1, what.bytes, what.on));
    } else if (simulated_control::launch(what.on, what.block, what.bytes,
                                         a_fill_ns + what.bytes / fills_bytes_ns) != CUDA_SUCCESS) {
      std::abort();
    }
  }

  programs::sequence random_;
  std::array<cudaStream_t, streams_each> on_{cudaStreamLegacy, cudaStreamPerThread};
  std::array<piece, 12> live_;
  const int own_;
  holdings& all_;
  turns* const order_;  // null: threads go on as they can
};

}  // namespace

void bench::footprint(allocator& memory, const options& wanted) {
  const std::size_t operations = std::min<std::size_t>(2000, wanted.largest);
  const int threads = std::min(8, wanted.threads);
  device_watch watch;
  holdings all;
  turns order(threads, wanted.seed);
  const bool simulated = simulated_control::present();
  const double spent = in_threads(threads, [&](int own) {
    worker one(own, wanted.seed, all, simulated ? &order : nullptr);
    one.run(memory, operations);
    REQUIRE(cudaDeviceSynchronize());
  });
  const std::optional<double> highest = watch.highest_mib();
  const auto mebibytes = [](unsigned long long bytes) { return static_cast<double>(bytes) / (1 << 20); };
  const std::string name = std::to_string(threads) + " threads x 6 streams";
  emit("footprint", name, "operation", spent / 1e3 / static_cast<double>(operations) / threads, "us");
  if (wanted.seed != 0) emit("footprint", name, "held at once at most", mebibytes(all.most()), "MiB");
  if (highest) emit("footprint", name, "highest use of the device", *highest, "MiB");
}
