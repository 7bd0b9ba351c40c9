// A kernel faults while blocks are live and others wait to serve again. Whichever call tells the program of
// it (the argument: device | stream | query | event | event_query | copy | launch), every later request and
// free says the same, and so does the runtime's last error; with "reset" as second argument the device serves
// again after one. The simulated driver's fault, or on a GPU that of tests/gpu/faulted_kernel.cu. One thread.
#include "tests/programs/faulted.hpp"

#include <cuda.h>

#include <cstring>
#include <string>

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

int launch(cudaStream_t stream) {
  simulated_control::run_all();
  return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  faulted(argv[1], &fault, &launch);
  const bool goes_on = argc > 2 && std::strcmp(argv[2], "reset") == 0;
  if (!goes_on) return 0;
  REQUIRE(cudaDeviceReset());
  show_requests("after the reset");
}
