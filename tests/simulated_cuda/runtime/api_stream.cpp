// Streams, events, captures, graphs, host functions.
// Any thread.
// Thin: the driver's rules are the rules.
#include "driver.hpp"

using namespace simulated_runtime;

namespace {

cudaError_t exchange_mode(driver_table const& d, cudaStreamCaptureMode* mode) {
  if (mode == nullptr) return cudaErrorInvalidValue;
  auto wanted = static_cast<CUstreamCaptureMode>(*mode);
  CUresult const code = d.cuThreadExchangeStreamCaptureMode(&wanted);
  *mode = static_cast<cudaStreamCaptureMode>(wanted);
  return static_cast<cudaError_t>(code);
}

cudaError_t is_capturing(driver_table const& d, CUstream on, cudaStreamCaptureStatus* status) {
  if (status == nullptr) return cudaErrorInvalidValue;
  CUstreamCaptureStatus found = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult const code = d.cuStreamIsCapturing(on, &found);
  *status = static_cast<cudaStreamCaptureStatus>(found);
  return static_cast<cudaError_t>(code);
}

}  // namespace

RUNTIME_FUNCTION(cudaStreamCreate, (cudaStream_t * out), d.cuStreamCreateWithPriority(out, 0, 0))
RUNTIME_FUNCTION(cudaStreamCreateWithFlags, (cudaStream_t * out, unsigned flags),
                 d.cuStreamCreateWithPriority(out, flags, 0))
RUNTIME_FUNCTION(cudaStreamCreateWithPriority, (cudaStream_t * out, unsigned flags, int priority),
                 d.cuStreamCreateWithPriority(out, flags, priority))
RUNTIME_FUNCTION(cudaStreamDestroy, (cudaStream_t on), d.cuStreamDestroy(on))
RUNTIME_BOTH(cudaStreamGetPriority, _ptsz, (cudaStream_t on, int* priority),
             d.cuStreamGetPriority(on, priority))
RUNTIME_BOTH(cudaStreamGetFlags, _ptsz, (cudaStream_t on, unsigned* flags), d.cuStreamGetFlags(on, flags))
RUNTIME_BOTH(cudaStreamGetId, _ptsz, (cudaStream_t on, unsigned long long* id), d.cuStreamGetId(on, id))
RUNTIME_BOTH(cudaStreamSynchronize, _ptsz, (cudaStream_t on), d.cuStreamSynchronize(on))
RUNTIME_BOTH(cudaStreamQuery, _ptsz, (cudaStream_t on), d.cuStreamQuery(on))
RUNTIME_BOTH(cudaStreamWaitEvent, _ptsz, (cudaStream_t on, cudaEvent_t which, unsigned flags),
             d.cuStreamWaitEvent(on, which, flags))
RUNTIME_BOTH(cudaStreamAddCallback, _ptsz,
             (cudaStream_t on, cudaStreamCallback_t function, void* argument, unsigned flags),
             d.cuStreamAddCallback(on, reinterpret_cast<CUstreamCallback>(function), argument, flags))
RUNTIME_BOTH(cudaLaunchHostFunc, _ptsz, (cudaStream_t on, cudaHostFn_t function, void* argument),
             d.cuLaunchHostFunc(on, function, argument))

RUNTIME_FUNCTION(cudaEventCreate, (cudaEvent_t * out), d.cuEventCreate(out, 0))
RUNTIME_FUNCTION(cudaEventCreateWithFlags, (cudaEvent_t * out, unsigned flags), d.cuEventCreate(out, flags))
RUNTIME_FUNCTION(cudaEventDestroy, (cudaEvent_t which), d.cuEventDestroy(which))
RUNTIME_FUNCTION(cudaEventQuery, (cudaEvent_t which), d.cuEventQuery(which))
RUNTIME_FUNCTION(cudaEventSynchronize, (cudaEvent_t which), d.cuEventSynchronize(which))
RUNTIME_FUNCTION(cudaEventElapsedTime, (float* milliseconds, cudaEvent_t from, cudaEvent_t to),
                 d.cuEventElapsedTime(milliseconds, from, to))
RUNTIME_BOTH(cudaEventRecord, _ptsz, (cudaEvent_t which, cudaStream_t on), d.cuEventRecord(which, on))
RUNTIME_BOTH(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t which, cudaStream_t on, unsigned flags),
             d.cuEventRecordWithFlags(which, on, flags))

RUNTIME_BOTH(cudaStreamBeginCapture, _ptsz, (cudaStream_t on, cudaStreamCaptureMode mode),
             d.cuStreamBeginCapture(on, static_cast<CUstreamCaptureMode>(mode)))
RUNTIME_BOTH(cudaStreamEndCapture, _ptsz, (cudaStream_t on, cudaGraph_t* out), d.cuStreamEndCapture(on, out))
RUNTIME_BOTH(cudaStreamIsCapturing, _ptsz, (cudaStream_t on, cudaStreamCaptureStatus* status),
             is_capturing(d, on, status))
RUNTIME_FUNCTION(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode), exchange_mode(d, mode))

RUNTIME_FUNCTION(cudaGraphCreate, (cudaGraph_t * out, unsigned flags), d.cuGraphCreate(out, flags))
RUNTIME_FUNCTION(cudaGraphDestroy, (cudaGraph_t which), d.cuGraphDestroy(which))
RUNTIME_FUNCTION(cudaGraphGetNodes, (cudaGraph_t which, cudaGraphNode_t* nodes, size_t* count),
                 d.cuGraphGetNodes(which, nodes, count))
RUNTIME_FUNCTION(cudaGraphInstantiate, (cudaGraphExec_t * out, cudaGraph_t which, unsigned long long flags),
                 d.cuGraphInstantiate(out, which, flags))
RUNTIME_FUNCTION(cudaGraphInstantiateWithFlags,
                 (cudaGraphExec_t * out, cudaGraph_t which, unsigned long long flags),
                 d.cuGraphInstantiate(out, which, flags))
RUNTIME_FUNCTION(cudaGraphExecDestroy, (cudaGraphExec_t which), d.cuGraphExecDestroy(which))
RUNTIME_BOTH(cudaGraphLaunch, _ptsz, (cudaGraphExec_t which, cudaStream_t on), d.cuGraphLaunch(which, on))
RUNTIME_BOTH(cudaGraphUpload, _ptsz, (cudaGraphExec_t which, cudaStream_t on), d.cuGraphUpload(which, on))
