// The parts of dispatch.hpp that are not on every call's path, and the thread state.
#include "shim/dispatch.hpp"

namespace gpumem::shim {

constinit thread_local thread_state this_thread;

CUcontext context_of(CUstream stream) noexcept {
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) return current_context();
  CUcontext context = nullptr;
  return driver::real.cuStreamGetCtx(stream, &context) == CUDA_SUCCESS ? context : nullptr;
}

}  // namespace gpumem::shim
