// On a shared host somebody else's work on the other half of our core slows it, for seconds at a time and for
// whoever is measured just then (one H200 host: 74 ns or 150 ns a pair, 320 or 640 ns for RMM, for all
// figures alike). A call into the driver that no library here hooks tells when that is so: what was timed
// then is not counted, and the thread moves to the quickest processor that it may use. A loop of arithmetic
// tells too little: where it took 198 ns, of 186 at best, an event's record and query took 650 instead of
// 312 (the driver's code and data need the core's caches, it seems). The same for every variant. Main thread
// only, but for start_on().
#pragma once

#include <cuda_runtime_api.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace bench {

class quiet_processor {
 public:
  // Moves this thread to the quickest processor.
  static void find() {
    const std::vector<int> found = ranked();
    if (!found.empty()) start_on(found.front());
  }

  // Those that this process may use, the quickest first; of two that share a core one comes after all others.
  static std::vector<int> ranked() {
    if (first_) {
      sched_getaffinity(0, sizeof all_, &all_);
      first_ = false;
    }
    std::vector<std::pair<double, int>> seen;
    for (int number = 0; number < CPU_SETSIZE; ++number)
      if (CPU_ISSET(number, &all_) && go_to(number)) seen.emplace_back(look(), number);
    sched_setaffinity(0, sizeof all_, &all_);
    std::sort(seen.begin(), seen.end());
    std::vector<std::string> cores;
    std::vector<int> first, second;
    for (const auto& [spent, number] : seen) {
      const std::string core = core_of(number);
      const bool is_new = core.empty() || std::find(cores.begin(), cores.end(), core) == cores.end();
      (is_new ? first : second).push_back(number);
      cores.push_back(core);
    }
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }

  // Moves the calling thread there, after ranked(). It stays by itself: bound to it, the driver's own work
  // would wait for ours (native pairs took up to three times as long).
  static void start_on(int number) {
    go_to(number);
    sched_setaffinity(0, sizeof all_, &all_);
  }

  // Somebody else is at work on this core now.
  static bool disturbed() { return look() > 1.25 * best_; }

 private:
  // The processors of its core, as the kernel writes them; empty where it does not tell.
  static std::string core_of(int number) {
    std::string siblings;
    std::ifstream("/sys/devices/system/cpu/cpu" + std::to_string(number) +
                  "/topology/thread_siblings_list") >>
        siblings;
    return siblings;
  }

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
