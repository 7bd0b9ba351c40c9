// What every driver hook does: re-entry guard, start at first use, context of the call, router, counters.
// Any thread; a routed call takes no lock here and makes one driver call, for the context. Never throws,
// and never makes up an answer: what no chain serves goes to the real function unchanged.
#pragma once

#include <cstdint>
#include <utility>

#include "core/base/threads/uncancelled.hpp"
#include "core/driver/question.hpp"
#include "core/driver/request.hpp"
#include "core/driver/sticky_error.hpp"
#include "core/driver/table.hpp"
#include "core/route/requests/hot_path.hpp"
#include "core/route/router.hpp"
#include "core/stats/page/counters.hpp"
#include "core/upstream/known_refusals.hpp"
#include "shim/observed/observed_memory.hpp"
#include "shim/observed/reservation.hpp"
#include "shim/process/one_by_one.hpp"
#include "shim/process/process.hpp"
#include "shim/process/thread_state.hpp"
#include "shim/symbols/hook.hpp"
#include "shim/symbols/real_symbols.hpp"

namespace gpumem::shim {

// Of a thread's first call, and of every call in a host function of a stream.
[[gnu::cold, gnu::noinline]] bool ask_whether_hook_may_work() noexcept;
// False: this call is core's or the driver's own, or there is nothing to do here (disabled, no driver, a
// forked child, a host function): hand it to the real function.
inline bool ensure_hook_may_work() noexcept {
  if (this_thread.here != thread_state::hooks::may_work) [[unlikely]]
    return ask_whether_hook_may_work();
  return process::ensure_running();
}
// Lives as long as a hook works that may.
class hook_at_work {
 public:
  hook_at_work() noexcept { this_thread.here = thread_state::hooks::at_work; }
  ~hook_at_work() { this_thread.here = thread_state::hooks::may_work; }
  hook_at_work(hook_at_work const&) = delete;
};

// Both in one, for whoever need not be fast.
class hook_scope {
 public:
  hook_scope() noexcept : active_(ensure_hook_may_work()) {
    if (active_) this_thread.here = thread_state::hooks::at_work;
  }
  ~hook_scope() {
    if (active_) this_thread.here = thread_state::hooks::may_work;
  }
  hook_scope(hook_scope const&) = delete;
  hook_scope& operator=(hook_scope const&) = delete;
  explicit operator bool() const noexcept { return active_; }

 private:
  bool active_;
};

// A code that a call of the program's was given, whichever call it was.
[[gnu::cold, gnu::noinline]] void context_lost() noexcept;
[[gnu::always_inline]] inline CUresult heard(CUresult code) noexcept {
  if (code != CUDA_SUCCESS && driver::is_sticky(code)) [[unlikely]]
    context_lost();
  return code;
}

inline CUresult counted(hook which, std::uint64_t bytes, CUresult code, bool served = false) noexcept {
  auto& counters = stats::local().hooks[index_of(which)];
  stats::add(counters.calls, 1);
  if (served) stats::add(counters.served, 1);
  if (code != CUDA_SUCCESS)
    stats::add(counters.failed, 1);
  else if (bytes != 0)
    stats::add(counters.bytes, bytes);
  return heard(code);
}

// The same for a request, or a free, that a chain served with success.
inline stats::hook_counters& counted_served(hook which) noexcept {
  auto& counters = stats::local().hooks[index_of(which)];
  stats::add(counters.calls, 1);
  stats::add(counters.served, 1);
  return counters;
}
inline void counted_served(hook which, std::uint64_t bytes) noexcept {
  stats::add(counted_served(which).bytes, bytes);
}

inline CUcontext current_context() noexcept {
  CUcontext context = nullptr;
  return driver::asked(driver::real.cuCtxGetCurrent, &context) == CUDA_SUCCESS ? context : nullptr;
}

// 0 means another stream in the two forms of a function.
inline CUstream named_stream(CUstream stream, bool per_thread_default) noexcept {
  if (stream != nullptr) return stream;
  return per_thread_default ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

inline bool is_default(CUstream stream) noexcept {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

// The context a stream belongs to; the default streams belong to the current one.
CUcontext context_of(CUstream stream) noexcept;

// A request that the driver answers, with its one repetition: cached memory must not make it fail. What is
// refused then is in the report, as `request` says.
template <typename Request, typename Real>
CUresult with_room(Request&& request, Real&& real) noexcept {
  CUresult code = real();
  if (code != CUDA_ERROR_OUT_OF_MEMORY) [[likely]]
    return code;
  if (CUcontext const context = current_context(); context != nullptr) {
    if (route::give_back(context, resource::give_back_scope::done) != 0) code = real();
    if (code == CUDA_ERROR_OUT_OF_MEMORY) {
      route::give_back(context, resource::give_back_scope::all);
      code = real();
    }
  }
  if (code == CUDA_ERROR_OUT_OF_MEMORY) route::refused_by_driver(request());
  return code;
}
inline route::refused_request refusal_of(driver::request const& request, int device) noexcept {
  return {.bytes = request.bytes,
          .stream = reinterpret_cast<std::uint64_t>(request.stream),
          .hook = request.hook,
          .device = device,
          .caller = request.caller,
          .kind = request.kind};
}

// The same for what takes memory of the device for itself, and natively waits for nothing: a kernel that runs
// may be waiting for this very call. Before the start, too.
[[gnu::cold]] bool has_made_room() noexcept;
// A thread may be cancelled inside the driver's call, as without us.
template <typename Real, typename... Arguments>
[[gnu::always_inline]] inline CUresult with_own_room(Real const& real, Arguments... arguments) {
  CUresult const code = real(arguments...);
  if (code != CUDA_ERROR_OUT_OF_MEMORY) [[likely]]
    return heard(code);
  return has_made_room() ? real(arguments...) : code;
}

// True where the memory of a stream-ordered call is a graph's, not this address's. The legacy stream never
// captures, and asking it would spoil a capture of another.
inline bool is_graph_node(CUstream stream) noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return stream != CU_STREAM_LEGACY &&
         driver::asked(driver::real.cuStreamIsCapturing, stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// Pass-through of an allocation: asked of the limits, repeated once for room, then noted as observed memory
// under the address it returned.
template <typename Real>
CUresult pass_allocation(driver::request const& request, CUdeviceptr* result, owner_of_memory const& owner,
                         Real&& real) noexcept {
  reservation reserved(static_cast<hook>(request.hook), request.bytes, owner);
  if (!reserved) {
    *result = 0;  // as the driver does when it refuses
    return reserved.code();
  }
  CUresult const code = with_room([&] { return refusal_of(request, owner.device); }, real);
  bool const movable = request.kind == driver::memory_kind::managed;
  if (code == CUDA_SUCCESS) reserved.commit(observed_kind::address, *result, request.bytes, movable);
  return code;
}
template <typename Real>
CUresult pass_allocation(driver::request const& request, CUdeviceptr* result, Real&& real) noexcept {
  base::uncancelled const held;  // pinned and stream-ordered allocations are the driver's cancellation points
  if (request.stream_ordered || request.kind == driver::memory_kind::managed)
    upstream::note_driver_keeps_memory();
  if (result == nullptr || request.kind == driver::memory_kind::host ||
      (request.stream_ordered && is_graph_node(request.stream))) {
    return with_room([&] { return refusal_of(request, current_owner().device); }, real);
  }
  auto const owner = request.stream_ordered ? owner_by_stream(request.stream, request.caller)
                                            : current_owner(request.caller);
  return pass_allocation(request, result, owner, real);
}

// The runtime calls first and sets itself up on a thread when the driver finds no context (measured, 13.0): a
// call that fails so was not the program's.
inline CUresult without_context(hook which, std::uint64_t bytes, CUresult code) noexcept {
  return code == CUDA_ERROR_INVALID_CONTEXT ? code : counted(which, bytes, code);
}

// `result` may be null or the size 0: the driver has an answer for that.
template <typename Real>
[[gnu::always_inline]] inline CUresult allocate(hook which, driver::request request, CUdeviceptr* result,
                                                Real&& real) noexcept {
  if (!ensure_hook_may_work()) [[unlikely]]
    return real();
  hook_at_work const at_work;
  request.hook = static_cast<std::uint16_t>(which);
  request.called = program_call(request.hook);
  std::uint64_t const bytes = request.bytes;
  if (this_thread.refused != CUDA_SUCCESS) [[unlikely]] {  // answered already, above the runtime
    if (result != nullptr) *result = 0;
    return counted(which, bytes, std::exchange(this_thread.refused, CUDA_SUCCESS), true);
  }
  bool const needs_current = !request.stream_ordered || is_default(request.stream);
  if (needs_current) request.context = current_context();
  if (needs_current && request.context == nullptr) [[unlikely]]
    return without_context(which, bytes, real());
  if (result == nullptr || bytes == 0) [[unlikely]]
    return counted(which, bytes, real());
  bool const passed = this_thread.passed == bytes && std::exchange(this_thread.passed, 0) != 0;
  auto const outcome = passed ? route::pass : route::allocate(request, result);
  if (outcome.code == CUDA_SUCCESS) [[likely]] {
    counted_served(which, bytes);
    return CUDA_SUCCESS;
  }
  if (outcome.served()) return counted(which, bytes, outcome.code, true);
  return counted(which, bytes, pass_allocation(driver::request(request), result, real));
}

// The resources that report faults hear of a free that passed and was refused.
inline CUresult told(CUresult code, driver::free_request const& release) noexcept {
  if (code == CUDA_ERROR_INVALID_VALUE) [[unlikely]]
    route::refused_below(driver::free_request(release));
  return code;
}

template <typename Real>
[[gnu::always_inline]] inline CUresult release(hook which, driver::free_request release,
                                               Real&& real) noexcept {
  if (!ensure_hook_may_work()) [[unlikely]]
    return real();
  hook_at_work const at_work;
  release.hook = static_cast<std::uint16_t>(which);
  if (release.address == 0) [[unlikely]]
    return real();  // cudart itself makes such calls: not a free of the program's
  if (release.stream_ordered && is_default(release.stream)) {
    release.context = current_context();
    if (release.context == nullptr) [[unlikely]] {
      bool const ours = route::owns(release.address);  // the driver would take its whole segment
      return without_context(which, 0, ours ? route::refusal_of_none(driver::free_request(release)) : real());
    }
  }
  auto const outcome = route::release(release);
  if (outcome.code == CUDA_SUCCESS) [[likely]] {
    counted_served(which);
    return CUDA_SUCCESS;
  }
  if (outcome.served()) {
    if (outcome.code == CUDA_ERROR_INVALID_VALUE) [[unlikely]]
      route::refused(driver::free_request(release));
    if (outcome.code == route::outcome::refused_since) [[unlikely]]
      return counted(which, 0, route::refused_since(driver::free_request(release)), true);
    return counted(which, 0, outcome.code, true);
  }
  if (release.kind == driver::memory_kind::host) return counted(which, 0, told(real(), release));
  route::passing_free const passing{driver::free_request(release)};
  if (auto const refusal = passing.refusal()) [[unlikely]]
    return counted(which, 0, *refusal, true);
  departure leaving(observed_kind::address, release.address);
  CUresult const code = told(real(), release);
  return counted(which, code == CUDA_SUCCESS ? leaving.done() : 0, code);
}

// A call that gives back what is kept under `key`.
template <typename Real>
CUresult giving_back(hook which, observed_kind kind, std::uint64_t key, Real&& real) noexcept {
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real();
  departure leaving(kind, key);
  CUresult const code = real();
  if (code == CUDA_SUCCESS) leaving.done();
  return counted(which, 0, code);
}

// A call that is only counted; `after` runs when it succeeded.
template <typename Real, typename After>
CUresult observe(hook which, std::uint64_t bytes, Real&& real, After&& after) noexcept {
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real();
  CUresult const code = real();
  if (code == CUDA_SUCCESS) after();
  return counted(which, bytes, code);
}

// The same of one that takes memory of the device for itself.
template <typename Real, typename After>
CUresult observe_with_own_room(hook which, std::uint64_t bytes, Real&& real, After&& after) noexcept {
  return observe(
      which, bytes, [&] { return with_own_room(real); }, after);
}

// The same of a call whose order among others of its kind says what holds.
template <typename Real, typename After>
CUresult observe_one_by_one(hook which, Real&& real, After&& after) noexcept {
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real();
  one_by_one const turn;
  CUresult const code = real();
  if (code == CUDA_SUCCESS) after();
  return counted(which, 0, code);
}

// A call that takes memory of the current device, and reserves `most` bytes of the limits first. `keep` tells
// the reservation what it took. A refusal leaves the output alone.
template <typename Real, typename Keep>
CUresult taking(hook which, std::uint64_t most, void const* caller, Real&& real, Keep&& keep) noexcept {
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real();
  reservation reserved(which, most, current_owner(caller));
  auto const asked = [&] {
    return route::refused_request{.bytes = most,
                                  .hook = static_cast<std::uint16_t>(which),
                                  .device = current_owner().device,
                                  .caller = caller};
  };
  CUresult const code = reserved ? with_room(asked, real) : reserved.code();
  if (code == CUDA_SUCCESS) keep(reserved);
  return counted(which, most, code);
}

}  // namespace gpumem::shim
