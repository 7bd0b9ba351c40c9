// A kernel of the current device that spins until the host says so, and calls beside it: whether they waited
// for it, and how long they took. For programs that ask what the driver does; one thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/programs/support.hpp"

namespace programs {

using clock_type = std::chrono::steady_clock;

inline double ms_since(clock_type::time_point begin) {
  return std::chrono::duration<double, std::milli>(clock_type::now() - begin).count();
}

// The primary context of a device, which is current then.
inline CUcontext primary_context(int device) {
  CUcontext context = nullptr;
  REQUIRE(cudaSetDevice(device));
  REQUIRE(cudaFree(nullptr));
  REQUIRE(cuCtxGetCurrent(&context));
  return context;
}
// Devices 0 and 1 have access to each other's memory; 1 is current then.
inline void give_access() {
  REQUIRE(cudaSetDevice(0));
  REQUIRE(cudaDeviceEnablePeerAccess(1, 0));
  REQUIRE(cudaSetDevice(1));
  REQUIRE(cudaDeviceEnablePeerAccess(0, 0));
}

__global__ void wait_for(volatile int* flag) {
  while (*flag == 0) {
  }
}
__global__ void nothing() {}

// Ends the kernels that wait for a flag after so long, unless it was asked before.
class kernel_end {
 public:
  kernel_end(int* flag, std::chrono::milliseconds after) : flag_(flag) {
    thread_ = std::thread([this, after] {
      for (auto i = after; i.count() > 0 && !over_; --i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      *flag_ = 1;
    });
  }
  // Whether they still ran; they end now.
  bool still_ran() {
    const bool still = *flag_ == 0;
    over_ = true;
    thread_.join();
    return still;
  }

 private:
  volatile int* const flag_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

struct spinning {
  int* flag = nullptr;
  int* flag_there = nullptr;
  cudaStream_t busy = nullptr;
  cudaStream_t own = nullptr;  // of the same device, without work

  spinning() {
    REQUIRE(cudaHostAlloc(reinterpret_cast<void**>(&flag), sizeof(int),
                          cudaHostAllocMapped | cudaHostAllocPortable));
    REQUIRE(cudaHostGetDevicePointer(reinterpret_cast<void**>(&flag_there), flag, 0));
    REQUIRE(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
    REQUIRE(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    *flag = 1;
    wait_for<<<1, 1, 0, busy>>>(flag_there);
    nothing<<<1, 1, 0, own>>>();
    REQUIRE(cudaDeviceSynchronize());
  }

  void launch() const {
    *flag = 0;
    wait_for<<<1, 1, 0, busy>>>(flag_there);
  }
  // Work beside the kernel that was launched, which ends with it, and after a second at the latest.
  template <typename Work>
  void beside_it(const char* what, Work&& work) const {
    beside_it(what, work, busy);
  }
  template <typename Work>
  void beside_it(const char* what, Work&& work, cudaStream_t on) const {
    kernel_end end(flag, std::chrono::seconds(1));
    const clock_type::time_point begin = clock_type::now();
    work();
    const double spent = ms_since(begin);
    const bool still = end.still_ran();
    REQUIRE(cudaStreamSynchronize(on));
    std::printf("%s: the kernel still runs: %s\n", what, still ? "yes" : "no");
    std::printf("time: %s %.2f ms\n", what, spent);
  }
  template <typename Work>
  void beside_a_kernel(const char* what, Work&& work) const {
    launch();
    beside_it(what, work);
  }
};

}  // namespace programs
