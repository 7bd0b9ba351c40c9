// tests/programs/waiting_calls.hpp on a GPU: beside a kernel that spins until the host says so, after 0.3 s
// at the latest. One thread calls, another one ends the kernel.
#include <memory>

#include "tests/gpu/beside_a_kernel.cuh"
#include "tests/programs/waiting_calls.hpp"

namespace {

using namespace programs;

class kernel_work {
 public:
  explicit kernel_work(unsigned flags) {
    if (flags == CU_STREAM_DEFAULT) REQUIRE(cudaStreamCreate(&at_.busy));
    REQUIRE(cudaDeviceSynchronize());
  }
  CUstream busy() const { return at_.busy; }
  void start() {
    over_ = false;
    at_.launch();
    end_ = std::thread([this] {
      for (int i = 0; i < 300 && !over_; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      *at_.flag = 1;
    });
  }
  bool waited() {
    const bool did = *static_cast<volatile int*>(at_.flag) != 0;
    over_ = true;
    end_.join();
    REQUIRE(cudaDeviceSynchronize());
    return did;
  }

 private:
  spinning at_;
  std::thread end_;
  std::atomic<bool> over_{false};
};

}  // namespace

int main(int argc, char** argv) {
  REQUIRE(cudaFree(nullptr));
  return ask_calls<kernel_work>(argc > 1 ? argv[1] : "calls");
}
