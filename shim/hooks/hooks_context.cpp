// Hooks of what ends a context and with it all its memory, of what takes it from a thread, of memory pools
// that the program chooses, and of access between devices. Called by the program on any thread. A context's
// blocks are forgotten after the driver has ended it, never before: else another thread could still be
// served memory that is about to die. Nothing is freed here.
#include <array>
#include <atomic>

#include "core/base/threads/sleep.hpp"
#include "core/driver/question.hpp"
#include "core/route/first_request.hpp"
#include "shim/hooks/dispatch.hpp"
#include "shim/observed/virtual_memory.hpp"
#include "shim/process/primary_calls.hpp"

using namespace gpumem;
using namespace gpumem::shim;

namespace {

// The primary context of each device, as the program retained it: release and reset name only the device.
std::array<std::atomic<CUcontext>, 128> primary_contexts{};

bool has_slot(CUdevice device) noexcept {
  return device >= 0 && static_cast<std::size_t>(device) < primary_contexts.size();
}

std::atomic<CUcontext>& primary_context(CUdevice device) noexcept {
  return primary_contexts[static_cast<std::size_t>(device)];
}

CUcontext known_primary(CUdevice device) noexcept {
  return has_slot(device) ? primary_context(device).load(std::memory_order_acquire) : nullptr;
}

// The driver could not find out whether a context lives, whose number tells. Without one it counts as ended:
// what is lost then is memory, and what a wrong guess the other way hands out is somebody else's.
bool is_left_to_the_number(CUresult code) noexcept {
  return driver::is_of_the_question(code) && driver::tells_contexts_apart();
}

bool primary_is_active(CUdevice device) noexcept {
  unsigned int flags = 0;
  int active = 0;
  auto const ask = driver::real.cuDevicePrimaryCtxGetState;
  if (ask == nullptr) return false;
  CUresult const code = driver::asked(ask, device, &flags, &active);
  return code == CUDA_SUCCESS ? active != 0 : is_left_to_the_number(code);
}

bool is_alive(CUcontext context) noexcept {
  unsigned int version = 0;
  auto const ask = driver::real.cuCtxGetApiVersion;
  if (ask == nullptr) return false;
  CUresult const code = driver::asked(ask, context, &version);
  return code == CUDA_SUCCESS || is_left_to_the_number(code);
}

using stream_order::context_visits::patience;

// A call after which `context` may be gone; `surely` says whether it is, if that can be said. What ends it
// for certain waits for the context's work natively, too, so for as long as that takes.
template <typename Real, typename Surely>
CUresult end(hook which, CUcontext context, patience limit, Real&& real, Surely&& surely) noexcept {
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real();
  route::context_ending call(context, limit);
  CUresult const code = real();
  if (code == CUDA_SUCCESS && call.settle(surely())) observed_memory::instance().forget(call.name());
  return counted(which, 0, code);
}

// Somebody else may still hold the primary context; then everything in it lives on. That it is active does
// not say so: it may have ended, and have been retained again.
template <typename Real>
CUresult release_primary(hook which, CUdevice device, Real&& real) noexcept {
  base::uncancelled const held;
  primary_calls const alone(device);
  return end(which, known_primary(device), patience::ten_seconds, real,
             [device] { return !primary_is_active(device); });
}

template <typename Real>
CUresult reset_primary(hook which, CUdevice device, Real&& real) noexcept {
  base::uncancelled const held;
  primary_calls const alone(device);
  return end(which, known_primary(device), patience::minute, real, [] { return true; });
}

template <typename Real>
CUresult destroy_context(hook which, CUcontext context, Real&& real) noexcept {
  return end(which, context, patience::minute, real, [] { return true; });
}

// A context takes memory of the device for itself (0.5 GiB on an H100): what chains keep idle makes room.
// More than once, as other threads' requests may hold a part of what they then do not get: a few ms at most.
template <typename Real>
CUresult make(CUdevice device, Real&& real) noexcept {
  CUresult code = real();
  if (code != CUDA_ERROR_OUT_OF_MEMORY || !process::is_running()) return code;
  base::uncancelled const held;
  for (int attempt = 0; attempt < 8 && code == CUDA_ERROR_OUT_OF_MEMORY; ++attempt) {
    if (attempt != 0) base::sleep_for(500'000);
    if (!route::give_back_if_idle(device)) break;
    code = real();
  }
  return code;
}

template <typename Real>
CUresult make_context(CUcontext const* context, CUdevice device, Real&& real) noexcept {
  CUresult const code = make(device, real);
  if (code == CUDA_SUCCESS && process::is_running()) route::prepare_first_request_in(*context);
  return code;
}

// Its primary context, without a reference of ours left behind: the green context holds one.
void note_green(CUgreenCtx green, CUdevice device) noexcept {
  CUcontext primary = nullptr;
  CUcontext context = nullptr;
  auto const convert = driver::real.cuCtxFromGreenCtx;
  if (!has_slot(device) || convert == nullptr || convert(&context, green) != CUDA_SUCCESS) return;
  if (GPUMEM_REAL(cuDevicePrimaryCtxRetain)(&primary, device) != CUDA_SUCCESS) return;
  GPUMEM_REAL(cuDevicePrimaryCtxRelease_v2)(device);
  primary_context(device).store(primary, std::memory_order_release);
  route::green_context_made(context, primary);
}

}  // namespace

extern "C" {

// Noted even before the start: whoever retains it may do so before any other hooked call.
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  base::uncancelled const held;
  primary_calls const alone(device);
  CUresult const code = make(device, [&] { return GPUMEM_REAL(cuDevicePrimaryCtxRetain)(context, device); });
  if (code == CUDA_SUCCESS && has_slot(device)) {
    primary_context(device).store(*context, std::memory_order_release);
    if (process::is_running()) route::prepare_first_request_in(*context);
  }
  return code;
}

// Not counted, and noted from before the start on, too.
CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  return make_context(context, device, [&] { return GPUMEM_REAL(cuCtxCreate_v2)(context, flags, device); });
}

CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* parameters, int count, unsigned int flags,
                        CUdevice device) {
  return make_context(context, device,
                      [&] { return GPUMEM_REAL(cuCtxCreate_v3)(context, parameters, count, flags, device); });
}

CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* parameters, unsigned int flags,
                        CUdevice device) {
  return make_context(context, device,
                      [&] { return GPUMEM_REAL(cuCtxCreate_v4)(context, parameters, flags, device); });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return release_primary(hook::cuDevicePrimaryCtxRelease, device,
                         [&] { return GPUMEM_REAL(cuDevicePrimaryCtxRelease)(device); });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return release_primary(hook::cuDevicePrimaryCtxRelease_v2, device,
                         [&] { return GPUMEM_REAL(cuDevicePrimaryCtxRelease_v2)(device); });
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return reset_primary(hook::cuDevicePrimaryCtxReset, device,
                       [&] { return GPUMEM_REAL(cuDevicePrimaryCtxReset)(device); });
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return reset_primary(hook::cuDevicePrimaryCtxReset_v2, device,
                       [&] { return GPUMEM_REAL(cuDevicePrimaryCtxReset_v2)(device); });
}

// Not counted: the runtime makes such calls by itself.
CUresult cuCtxSetCurrent(CUcontext context) {
  if (context == nullptr) this_thread.runtime_context = nullptr;
  return GPUMEM_REAL(cuCtxSetCurrent)(context);
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  this_thread.runtime_context = nullptr;
  return GPUMEM_REAL(cuCtxPopCurrent)(context);
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  this_thread.runtime_context = nullptr;
  return GPUMEM_REAL(cuCtxPopCurrent_v2)(context);
}

CUresult cuCtxDestroy(CUcontext context) {
  return destroy_context(hook::cuCtxDestroy, context, [&] { return GPUMEM_REAL(cuCtxDestroy)(context); });
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  return destroy_context(hook::cuCtxDestroy_v2, context,
                         [&] { return GPUMEM_REAL(cuCtxDestroy_v2)(context); });
}

CUresult cuCtxDetach(CUcontext context) {
  return end(
      hook::cuCtxDetach, context, patience::ten_seconds, [&] { return GPUMEM_REAL(cuCtxDetach)(context); },
      [&] { return !is_alive(context); });
}

// The context that it converts to is known at once: a stream of it may be used before the program converts
// it.
CUresult cuGreenCtxCreate(CUgreenCtx* green, CUdevResourceDesc resources, CUdevice device,
                          unsigned int flags) {
  return observe(
      hook::cuGreenCtxCreate, 0,
      [&] { return GPUMEM_REAL(cuGreenCtxCreate)(green, resources, device, flags); },
      [&] { note_green(*green, device); });
}

// It may have held the last reference to its primary context.
CUresult cuGreenCtxDestroy(CUgreenCtx green) {
  CUcontext context = nullptr;
  CUdevice device = -1;
  if (hook_scope const scope; scope && driver::real.cuCtxFromGreenCtx != nullptr) {
    driver::real.cuCtxFromGreenCtx(&context, green);
    device = route::device_of(context);
  }
  return release_primary(hook::cuGreenCtxDestroy, device, [&] {
    route::green_context* const known = route::green_context_of(context);
    if (known != nullptr) route::green_context_ends(*known);
    CUresult const code = GPUMEM_REAL(cuGreenCtxDestroy)(green);
    if (code == CUDA_SUCCESS && known != nullptr) route::green_context_gone(*known);
    if (code != CUDA_SUCCESS && known != nullptr) route::green_context_survived(*known);
    if (code == CUDA_SUCCESS && known == nullptr && context != nullptr) route::context_gone(context);
    return code;
  });
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  return observe_one_by_one(
      hook::cuDeviceSetMemPool, [&] { return GPUMEM_REAL(cuDeviceSetMemPool)(device, pool); },
      [&] { route::pool_chosen(device, pool); });
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  return observe_one_by_one(
      hook::cuMemSetMemPool, [&] { return GPUMEM_REAL(cuMemSetMemPool)(location, type, pool); },
      [&] {
        // Managed memory has a current pool of its own, which no chain stands for.
        bool const is_device =
            location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED;
        if (is_device) route::pool_chosen(location->id, pool);
      });
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, CUmemAccessDesc const* access, size_t count) {
  return observe_one_by_one(
      hook::cuMemPoolSetAccess, [&] { return GPUMEM_REAL(cuMemPoolSetAccess)(pool, access, count); },
      [&] {
        for (size_t i = 0; i < count; ++i) {
          bool const given = access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
          if (given && access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
            route::pool_shared(pool, access[i].location.id);
        }
      });
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  return observe_with_own_room(  // it maps what the peer has
      hook::cuCtxEnablePeerAccess, 0, [&] { return GPUMEM_REAL(cuCtxEnablePeerAccess)(peer, flags); },
      [&] { route::peer_access_enabled(current_context(), peer); });
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  return observe(
      hook::cuCtxDisablePeerAccess, 0, [&] { return GPUMEM_REAL(cuCtxDisablePeerAccess)(peer); },
      [&] { route::peer_access_disabled(current_context(), peer); });
}
}
