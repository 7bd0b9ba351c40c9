// A holder that does not get on: it keeps what a waiter wants until it has seen the waiter sleep, on the same
// processor and with a lower priority. A waiter that only yields keeps it waiting for good, or until the
// kernel's throttling of real-time threads, and the holder gives up after ten seconds. For unit tests of
// what waits for another thread; two threads of their own each time.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

namespace gpumem::tests {

// Of a thread; false: the process may not give it.
inline bool run_as(int policy) noexcept {
  sched_param const how{.sched_priority = policy == SCHED_FIFO ? 1 : 0};
  return sched_setscheduler(0, policy, &how) == 0;
}

// Without real-time priorities what waits has the usual one.
inline bool may_be_real_time() noexcept {
  bool may = false;
  std::thread([&] { may = run_as(SCHED_FIFO); }).join();
  return may;
}

inline long sleeps_of(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("voluntary_ctxt_switches:")) return std::atol(line.c_str() + 24);
  }
  return -1;
}

inline void stay_on_one_processor() noexcept {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
  sched_setaffinity(0, sizeof one, &one);
}

// The policies of both threads.
struct priorities {
  int waiter, holder;
};

// Whether the waiter slept until the holder gave what it had.
template <typename Take, typename Give, typename Wait>
bool waiter_sleeps(priorities const& as, Take take, Give give, Wait wait) {
  std::atomic<pid_t> waiter{0};
  std::atomic<bool> held{false}, slept{false};
  std::thread both([&] {  // which has the processor that the two inherit
    stay_on_one_processor();
    std::thread holder([&] {
      run_as(as.holder);
      take();
      held.store(true);
      while (waiter.load() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      long const before = sleeps_of(waiter.load());
      while (!slept.load() && std::chrono::steady_clock::now() < until) {
        slept.store(sleeps_of(waiter.load()) >= before + 3);
      }
      give();
    });
    while (!held.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    run_as(as.waiter);
    waiter.store(gettid());
    wait();
    run_as(SCHED_OTHER);
    holder.join();
  });
  both.join();
  return slept.load();
}

}  // namespace gpumem::tests
