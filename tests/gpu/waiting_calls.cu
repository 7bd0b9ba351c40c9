// tests/programs/waiting_calls.hpp on a GPU: beside a kernel that spins until the host says so, after 0.3 s
// at the latest. One thread calls, another one ends the kernel.
#include <memory>
#include <optional>

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
    at_.launch();
    end_.emplace(at_.flag, std::chrono::milliseconds(300));
  }
  bool waited() {
    const bool did = !end_->still_ran();
    REQUIRE(cudaDeviceSynchronize());
    return did;
  }

 private:
  spinning at_;
  std::optional<kernel_end> end_;
};

}  // namespace

int main(int argc, char** argv) {
  REQUIRE(cudaFree(nullptr));
  return ask_calls<kernel_work>(argc > 1 ? argv[1] : "calls");
}
