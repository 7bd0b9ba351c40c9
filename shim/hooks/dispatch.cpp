// The parts of dispatch.hpp that are not on every call's path, and the thread state.
#include "shim/hooks/dispatch.hpp"

namespace gpumem::shim {

constinit thread_local thread_state this_thread;

CUcontext context_of(CUstream stream) noexcept {
  if (is_default(stream)) return current_context();
  CUcontext context = nullptr;
  return driver::real.cuStreamGetCtx(stream, &context) == CUDA_SUCCESS ? context : nullptr;
}

}  // namespace gpumem::shim
