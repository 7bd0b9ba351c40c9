// The parts of dispatch.hpp that are not on every call's path, and the thread state.
#include "shim/hooks/dispatch.hpp"

namespace gpumem::shim {

constinit thread_local thread_state this_thread;

CUcontext context_of(CUstream stream) noexcept {
  if (is_default(stream)) return current_context();
  CUcontext context = nullptr;
  return driver::real.cuStreamGetCtx(stream, &context) == CUDA_SUCCESS ? context : nullptr;
}

void context_lost() noexcept {
  if (!process::is_running()) return;
  base::uncancelled const held;
  route::context_lost();
}

bool has_made_room() noexcept {
  if (!process::is_running()) return false;
  base::uncancelled const held;
  CUcontext const context = current_context();
  return context != nullptr && route::give_back_if_idle(context);
}

}  // namespace gpumem::shim
