// cuda.h with every ABI version of every function declared under its exported name, which is how the stand-in
// defines them. Included first by every file of the stand-in driver. Never include plain cuda.h before this:
// its macros would rename the definitions.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define SIMULATED_API extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI

// Of CUDA 13.1, 13.3 and 13.4, where the headers are older.
#if CUDA_VERSION < 13010
struct CUstreamCigCaptureParams_st;
using CUstreamCigCaptureParams = CUstreamCigCaptureParams_st;
SIMULATED_API cuStreamBeginCaptureToCig(CUstream, CUstreamCigCaptureParams*);
SIMULATED_API cuStreamBeginCaptureToCig_ptsz(CUstream, CUstreamCigCaptureParams*);
SIMULATED_API cuStreamEndCaptureToCig(CUstream);
SIMULATED_API cuStreamEndCaptureToCig_ptsz(CUstream);
#endif
#if CUDA_VERSION < 13040
SIMULATED_API cuMemGetLocationInfo(CUdeviceptr, size_t, size_t, size_t, CUmemLocation*);
#endif
#if CUDA_VERSION < 13030
using CUgraphRecaptureCallback = void*;
SIMULATED_API cuStreamBeginRecaptureToGraph(CUstream, CUstreamCaptureMode, CUgraph, CUgraphRecaptureCallback,
                                            void*);
SIMULATED_API cuStreamBeginRecaptureToGraph_ptsz(CUstream, CUstreamCaptureMode, CUgraph,
                                                 CUgraphRecaptureCallback, void*);
#endif
