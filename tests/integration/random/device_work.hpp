// What the random program lets a device do with memory: stamp a block with its owner's number, and look
// whether the stamp is still there. Two back ends, one of which is linked: device_work_simulated.cpp declares
// what a kernel would touch, and the simulated CUDA's checker judges the order;
// tests/gpu/device_work_kernels.cpp runs kernels. One object for each context, opened and closed by one
// thread while it is current; the calls between may come from any thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace random_program {

struct block;

class device_work {
 public:
  static bool on_a_gpu();
  // The environment, before CUDA begins.
  static void prepare();

  void open();
  // All work must be over. Adds what was found to the sum.
  void close();

  // Asynchronous; they take about so long on the device. The reader counts words that are not the stamp.
  CUresult stamp(block const& b, CUstream on, unsigned nanoseconds);
  CUresult look(block const& b, CUstream on, unsigned nanoseconds);

  // Above the driver, for the simulated CUDA's checker.
  static void took(block const& b, CUstream on);
  static void gives(block const& b, CUstream on);
  static void gave_not(block const& b);

  // No thread works: what the library says is held can be compared with what the driver holds.
  static void settled(char const* when);

  // How often this thread has waited for the device inside calls, where that is known.
  static unsigned long long waits();

  static unsigned long long wrong();  // words or hazards, since the start
  static void describe_wrong();       // prints the first of them

 private:
  [[maybe_unused]] CUmodule code_ = nullptr;
  [[maybe_unused]] CUfunction stamp_ = nullptr, look_ = nullptr;
  [[maybe_unused]] CUdeviceptr found_ = 0;
};

}  // namespace random_program
