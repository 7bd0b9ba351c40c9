// A kernel faults while blocks are live and others wait to serve again. Whichever call tells the program of
// it (the argument: device | stream | query | event | event_query | copy | launch), every later request and
// free says the same, and so does the runtime's last error; with "reset" as second argument also after a
// reset of the device. "told": in other contexts (faulted_elsewhere.hpp). The simulated driver's fault, or on
// a GPU that of tests/gpu/faulted_kernel.cu. One thread.
#include "tests/programs/faulted.hpp"

#include <cuda.h>

#include <cstring>
#include <string>

#include "tests/programs/faulted_elsewhere.hpp"
#include "tests/simulated_cuda/simulated.h"

namespace {

using namespace programs;

CUfunction kernel = nullptr;

void fault(cudaStream_t stream) {
  CUmodule module = nullptr;
  REQUIRE(cuModuleLoadData(&module, "simulated module 4096"));
  REQUIRE(cuModuleGetFunction(&kernel, module, "local 0"));
  REQUIRE(simulated_control::fault(stream, CUDA_ERROR_ILLEGAL_ADDRESS, 1000000));
}

void fault_now(cudaStream_t stream) {
  REQUIRE(simulated_control::fault(stream, CUDA_ERROR_ILLEGAL_ADDRESS, 1));
}

int launch(cudaStream_t stream) {
  simulated_control::run_all();
  return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string how = argv[1];
  if (how == "told") {
    faulted_elsewhere(true, argc > 2, &fault_now);
    return 0;
  }
  faulted(how, argc > 2 && std::strcmp(argv[2], "reset") == 0, &fault, &launch);
}
