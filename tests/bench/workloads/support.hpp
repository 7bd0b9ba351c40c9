// What the workloads share: a clock in nanoseconds, the median of timed batches, threads that start together,
// and the result lines (one JSON object a line on stdout, flushed, so that a run that is stopped keeps what
// it had). Any thread may time; only the main thread emits.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/workloads/allocator.hpp"
#include "tests/bench/workloads/quiet_processor.hpp"
#include "tests/programs/support.hpp"

namespace bench {

inline double now() {
  return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                 std::chrono::steady_clock::now().time_since_epoch())
                                 .count());
}

inline void emit(const char* workload, const std::string& name, const char* metric, double value,
                 const char* unit) {
  std::printf(R"({"workload": "%s", "case": "%s", "metric": "%s", "value": %.6g, "unit": "%s"})"
              "\n",
              workload, name.c_str(), metric, value, unit);
  std::fflush(stdout);
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

inline std::string size_name(std::size_t bytes) {
  const char* units[] = {" B", " KiB", " MiB", " GiB"};
  int unit = 0;
  for (; bytes >= 1024 && bytes % 1024 == 0 && unit < 3; ++unit) bytes /= 1024;
  return std::to_string(bytes) + units[unit];
}

// Nanoseconds a call of `step`: the median of batches, each long enough (20 us) that reading the clock does
// not count, until `budget` is used up and at least five batches were timed. Batches of a disturbed processor
// count only where there are no others.
template <typename body>
double median_of_batches(double budget, body step) {
  quiet_processor::find();
  for (int i = 0; i < 16; ++i) step();
  int many = 1;
  // The shortest of three: one slow step would make a batch of a few, of which the clock itself is a part.
  for (; many < (1 << 20); many *= 2) {
    double shortest = 1e18;
    for (int repeat = 0; repeat < 3; ++repeat) {
      const double begin = now();
      for (int i = 0; i < many; ++i) step();
      shortest = std::min(shortest, now() - begin);
    }
    if (shortest > 20e3) break;
  }
  std::vector<double> each, disturbed;
  for (const double end = now() + budget, last = end + budget; each.size() < 5 || now() < end;) {
    const double begin = now();
    for (int i = 0; i < many; ++i) step();
    const double spent = (now() - begin) / many;
    if (!quiet_processor::disturbed()) {
      each.push_back(spent);
      continue;
    }
    disturbed.push_back(spent);
    if (disturbed.size() % 16 == 0) quiet_processor::find();
    if (disturbed.size() >= 5 && now() > last) break;
  }
  return median(std::move(each.empty() ? disturbed : each));
}

// Runs `run(own number)` in so many threads at once; returns the nanoseconds from the start of all to the
// last end.
template <typename body>
double in_threads(int threads, body run) {
  std::atomic<int> ready{0};
  std::atomic<bool> start{false};
  std::vector<std::thread> workers;
  for (int own = 0; own < threads; ++own) {
    workers.emplace_back([&, own] {
      ++ready;
      while (!start.load(std::memory_order_acquire)) std::this_thread::yield();
      run(own);
    });
  }
  while (ready.load() != threads) std::this_thread::yield();
  const double begin = now();
  start.store(true, std::memory_order_release);
  for (std::thread& worker : workers) worker.join();
  return now() - begin;
}

// A function of the driver, as the runtime looks it up.
template <typename Function>
Function driver_function(const char* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
  REQUIRE(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &status));
  return reinterpret_cast<Function>(found);
}

class stream {
 public:
  stream() { REQUIRE(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking)); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() { REQUIRE(cudaStreamDestroy(handle_)); }
  cudaStream_t get() const { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
};

}  // namespace bench
