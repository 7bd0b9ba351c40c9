// How much of the first device is in use, beyond what was at the start: as NVML tells it every 0.2 ms, whose
// header is in no package, or as the simulated driver knows it. By workloads whose memory counts.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "tests/simulated_cuda/simulated.h"

namespace bench {

class device_use {
 public:
  device_use() {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == nullptr) return;
    const auto begin = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    const auto device =
        reinterpret_cast<int (*)(unsigned, void**)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
    ask_ = reinterpret_cast<int (*)(void*, figures*)>(dlsym(library, "nvmlDeviceGetMemoryInfo"));
    if (begin == nullptr || device == nullptr || begin() != 0 || device(0, &device_) != 0) ask_ = nullptr;
  }
  bool is_known() const { return ask_ != nullptr; }
  unsigned long long bytes() const {
    figures now{};
    return ask_ != nullptr && ask_(device_, &now) == 0 ? now.used : 0;
  }

 private:
  struct figures {
    unsigned long long total, free, used;
  };
  void* device_ = nullptr;
  int (*ask_)(void*, figures*) = nullptr;
};

// A thread that looks as long as this lives.
class device_watch {
 public:
  device_watch() : before_(device_.bytes()), highest_(before_) {
    if (!device_.is_known()) return;
    looks_ = std::thread([this] {
      while (!over_) {
        highest_ = std::max(highest_.load(), device_.bytes());
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
  }
  ~device_watch() { stop(); }
  device_watch(const device_watch&) = delete;

  // Ends the watch; none where nobody knows.
  std::optional<double> highest_mib() {
    stop();
    constexpr double mib = 1 << 20;
    if (simulated_control::present()) return static_cast<double>(simulated_control::most_in_use(0)) / mib;
    if (!device_.is_known()) return std::nullopt;
    return static_cast<double>(highest_ - before_) / mib;
  }

 private:
  void stop() {
    over_ = true;
    if (looks_.joinable()) looks_.join();
  }

  const device_use device_;
  const unsigned long long before_;
  std::atomic<unsigned long long> highest_;
  std::atomic<bool> over_{false};
  std::thread looks_;
};

}  // namespace bench
