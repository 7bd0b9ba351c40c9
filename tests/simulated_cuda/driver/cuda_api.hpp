// cuda.h with every ABI version of every function declared under its exported name, which is how the stand-in
// defines them. Included first by every file of the stand-in driver. Never include plain cuda.h before this:
// its macros would rename the definitions.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define SIMULATED_API extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI
