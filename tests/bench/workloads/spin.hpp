// A kernel of about 20 us that writes one word: spin.cu, and for the simulated CUDA spin_simulated.cpp.
// Called by the workload `concurrency`, from one thread.
#pragma once

#include <cuda_runtime.h>

namespace bench {

void spin(void* word, cudaStream_t on);
// Nanoseconds, by the clock that such kernels take their time of.
double now_of_spins();

}  // namespace bench
