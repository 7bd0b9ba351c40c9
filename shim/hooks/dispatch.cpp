// The parts of dispatch.hpp that are not on every call's path, and the thread state.
#include "shim/hooks/dispatch.hpp"

namespace gpumem::shim {

constinit thread_local thread_state this_thread;

bool ask_whether_hook_may_work() noexcept {
  base::uncancelled const held;
  if (this_thread.is_inside() || !process::ensure_running()) return false;
  if (this_thread.here == thread_state::hooks::may_work) return true;  // it has started just now
  this_thread.here = thread_state::hooks::at_work;
  CUcontext context = nullptr;
  bool const may = driver::real.cuCtxGetCurrent(&context) != CUDA_ERROR_NOT_PERMITTED;
  this_thread.here = may ? thread_state::hooks::may_work : thread_state::hooks::unasked;
  return may;
}

CUcontext context_of(CUstream stream) noexcept {
  if (is_default(stream)) return current_context();
  CUcontext context = nullptr;
  return driver::asked(driver::real.cuStreamGetCtx, stream, &context) == CUDA_SUCCESS ? context : nullptr;
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
