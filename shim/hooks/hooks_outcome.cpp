// Hooks of calls by which a program learns that a kernel of its failed: waits, queries, copies that wait.
// Called by the program on any thread, as often as it can: what is no such code costs one comparison. Not
// counted, and nothing is altered; after a failure chains serve nobody from the context, which the driver has
// given up.
#include "shim/hooks/dispatch.hpp"

using namespace gpumem::shim;

extern "C" {

CUresult cuStreamSynchronize(CUstream stream) {
  return heard(GPUMEM_REAL(cuStreamSynchronize)(stream));
}

CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  return heard(GPUMEM_REAL(cuStreamSynchronize_ptsz)(stream));
}

CUresult cuStreamQuery(CUstream stream) {
  return heard(GPUMEM_REAL(cuStreamQuery)(stream));
}

CUresult cuStreamQuery_ptsz(CUstream stream) {
  return heard(GPUMEM_REAL(cuStreamQuery_ptsz)(stream));
}

CUresult cuEventSynchronize(CUevent event) {
  return heard(GPUMEM_REAL(cuEventSynchronize)(event));
}

CUresult cuEventQuery(CUevent event) {
  return heard(GPUMEM_REAL(cuEventQuery)(event));
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return heard(GPUMEM_REAL(cuMemcpy)(to, from, bytes));
}

CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return heard(GPUMEM_REAL(cuMemcpy_ptds)(to, from, bytes));
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return heard(GPUMEM_REAL(cuMemcpyDtoH_v2)(to, from, bytes));
}

CUresult cuMemcpyDtoH_v2_ptds(void* to, CUdeviceptr from, size_t bytes) {
  return heard(GPUMEM_REAL(cuMemcpyDtoH_v2_ptds)(to, from, bytes));
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, void const* from, size_t bytes) {
  return heard(GPUMEM_REAL(cuMemcpyHtoD_v2)(to, from, bytes));
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, void const* from, size_t bytes) {
  return heard(GPUMEM_REAL(cuMemcpyHtoD_v2_ptds)(to, from, bytes));
}
}
