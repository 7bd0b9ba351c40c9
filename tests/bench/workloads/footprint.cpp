// How much of the device a program of many threads and streams takes for what it needs: eight threads, each
// with six streams of all kinds, hold up to twelve blocks of 512 B to 32 MiB, fill each on its stream and
// free it there; now and then a thread waits for a stream. Time of an operation, and the highest use of the
// device beyond what it was at the start, as NVML tells it every 0.2 ms; without NVML that figure is left
// out.
#include <dlfcn.h>

#include <array>
#include <memory>

#include "tests/bench/workloads/workloads.hpp"

namespace {

// What NVML says of the first device. Of its interface only what is needed: the header is in no package.
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

constexpr int streams_each = 6;

class worker {
 public:
  explicit worker(int own) : random_(static_cast<std::uint64_t>(own) + 1) {
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
      piece& chosen = live_[random_.next(live_.size())];
      if (chosen.block != nullptr) {
        memory.free(chosen.block, chosen.bytes, chosen.on);
        chosen.block = nullptr;
      } else {
        const std::size_t power = std::size_t{512} << random_.next(16);
        chosen.bytes = power + random_.next(power);
        chosen.on = on_[random_.next(streams_each)];
        chosen.block = memory.allocate(chosen.bytes, chosen.on);
        REQUIRE(cudaMemsetAsync(chosen.block, 1, chosen.bytes, chosen.on));
      }
      if (i % 64 == 63) REQUIRE(cudaStreamSynchronize(on_[random_.next(streams_each)]));
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
  programs::sequence random_;
  std::array<cudaStream_t, streams_each> on_{cudaStreamLegacy, cudaStreamPerThread};
  std::array<piece, 12> live_;
};

}  // namespace

void bench::footprint(allocator& memory, const options& wanted) {
  const std::size_t operations = std::min<std::size_t>(2000, wanted.largest);
  const int threads = std::min(8, wanted.threads);
  const device_use device;
  const unsigned long long before = device.bytes();
  std::atomic<unsigned long long> highest{before};
  std::atomic<bool> over{false};
  std::thread watch([&] {
    while (device.is_known() && !over) {
      highest = std::max(highest.load(), device.bytes());
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  const double spent = in_threads(threads, [&](int own) {
    worker one(own);
    one.run(memory, operations);
    REQUIRE(cudaDeviceSynchronize());
  });
  over = true;
  watch.join();
  const std::string name = std::to_string(threads) + " threads x 6 streams";
  emit("footprint", name, "operation", spent / 1e3 / static_cast<double>(operations) / threads, "us");
  if (device.is_known())
    emit("footprint", name, "highest use of the device", static_cast<double>(highest - before) / (1 << 20),
         "MiB");
}
