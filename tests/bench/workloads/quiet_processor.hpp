// On a shared host somebody else's work on the other half of our core slows it, for seconds at a time and for
// whoever is measured just then (one H200 host: 74 ns or 150 ns a pair, 320 or 640 ns for RMM, for all
// figures alike). A call into the driver that no library here hooks tells when that is so: what was timed
// then is not counted, and the thread moves to the quickest processor that it may use. A loop of arithmetic
// tells too little: where it took 198 ns, of 186 at best, an event's record and query took 650 instead of
// 312 (the driver's code and data need the core's caches, it seems). The same for every variant. Main thread
// only.
#pragma once

#include <cuda_runtime_api.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

namespace bench {

class quiet_processor {
 public:
  // Moves this thread to the quickest processor.
  static void find() {
    if (first_) {
      sched_getaffinity(0, sizeof all_, &all_);
      first_ = false;
    }
    int quickest = -1;
    double least = 0;
    for (int number = 0; number < CPU_SETSIZE; ++number) {
      if (!CPU_ISSET(number, &all_) || !go_to(number)) continue;
      const double spent = look();
      if (quickest < 0 || spent < least) {
        quickest = number;
        least = spent;
      }
    }
    if (quickest >= 0) go_to(quickest);
    // It stays there by itself. Bound to it, the driver's own work would wait for ours: native pairs took up
    // to three times as long.
    sched_setaffinity(0, sizeof all_, &all_);
  }

  // Somebody else is at work on this core now.
  static bool disturbed() { return look() > 1.25 * best_; }

 private:
  static bool go_to(int number) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(number, &only);
    return sched_setaffinity(0, sizeof only, &only) == 0;
  }

  // Nanoseconds of eight questions to the driver: the least of three rounds.
  static double look() {
    double least = 0;
    for (int round = 0; round < 3; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < 8; ++i) static_cast<void>(cudaStreamQuery(cudaStreamLegacy));
      const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
      least = round == 0 ? spent.count() : std::min(least, spent.count());
    }
    best_ = best_ == 0 ? least : std::min(best_, least);
    return least;
  }

  inline static double best_ = 0;
  inline static bool first_ = true;
  inline static cpu_set_t all_;
};

}  // namespace bench
