// waiting_calls.hpp on the simulated CUDA, whose clock goes on to the end of what a call waits for. One
// thread.
#include "tests/programs/waiting_calls.hpp"

#include "tests/simulated_cuda/simulated.h"

namespace {

using namespace programs;

class simulated_work {
 public:
  explicit simulated_work(unsigned flags) {
    REQUIRE(cuStreamCreate(&busy_, flags));
    REQUIRE(cuMemAlloc(&block_, 4096));
  }
  CUstream busy() const { return busy_; }
  void start() {
    const simulated_access access{block_, 4096, 1};
    REQUIRE(simulated_control::launch(busy_, &access, 1, 1'000'000'000'000));
  }
  bool waited() {
    const bool did = cuStreamQuery(busy_) == CUDA_SUCCESS;
    REQUIRE(cuCtxSynchronize());
    return did;
  }

 private:
  CUstream busy_ = nullptr;
  CUdeviceptr block_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  CUcontext context = nullptr;
  REQUIRE(cuInit(0));
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 0));
  REQUIRE(cuCtxSetCurrent(context));
  return ask_calls<simulated_work>(argc > 1 ? argv[1] : "calls");
}
