// A guard around driver calls: sets this thread's capture mode to RELAXED and back. Without it cuMemAlloc,
// cuMemFree or cuEventQuery beside a global-mode capture fail with 900 and invalidate the capture
// (measured). A request that a capture forbids was refused before (watched_calls.hpp): this is for a
// capture that begins while a request is served. Costs nothing while nothing captures.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/mutant.hpp"
#include "core/driver/context_id.hpp"
#include "core/driver/question.hpp"
#include "core/driver/table.hpp"
#include "core/stream_order/context_visits.hpp"

namespace gpumem::stream_order {

// Captures running in this process, in any context; kept by epochs.
inline std::atomic<int> active_captures{0};
inline bool any_captures() noexcept {
  return active_captures.load(std::memory_order_acquire) > 0;
}

class relaxed_mode {
 public:
  relaxed_mode() noexcept : relaxed_mode(any_captures()) {}
  // `always`: everywhere but under the mutex of epochs, which a capture that begins waits for. Without it a
  // capture that begins between this and the call is met.
  explicit relaxed_mode(bool always) noexcept {
    exchanged_ =
        always && driver::asked(driver::real.cuThreadExchangeStreamCaptureMode, &mode_) == CUDA_SUCCESS;
  }
  ~relaxed_mode() {
    if (!exchanged_) return;
    // The thread would be in this mode for good, and its captures would forbid nothing.
    constexpr int once = 1, several = 4;
    int const most = GPUMEM_MUTANT(asked_once) ? once : several;
    for (int i = 0; i < most && driver::real.cuThreadExchangeStreamCaptureMode(&mode_) != CUDA_SUCCESS; ++i) {
    }
  }
  relaxed_mode(relaxed_mode const&) = delete;
  relaxed_mode& operator=(relaxed_mode const&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool exchanged_ = false;  // else the mode there is would be set back to one that nobody had
};

inline bool is_current(CUcontext context) noexcept {
  CUcontext now = nullptr;
  return driver::asked(driver::real.cuCtxGetCurrent, &now) == CUDA_SUCCESS && now == context;
}

// The life of a context that epochs count, as it was before its handle was read.
struct counted_life {
  std::atomic<std::uint32_t> const* now = nullptr;
  std::uint32_t then = 0;
  bool was_over = false;
  std::uint64_t id = 0;  // where a call may be ending the context: its number; else 0

  // Its handle names another one by now, though nobody has said so yet.
  bool is_anothers(CUcontext handle) const noexcept {
    return id != 0 && driver::has_ended(handle, id) && !GPUMEM_MUTANT(namesake_entered);
  }
  bool is_over() const noexcept {
    return now != nullptr && (was_over || now->load(std::memory_order_acquire) != then);
  }
};

// Makes `context` current for the life of the guard; for calls that act on the current context. One that may
// be ending is not entered, nor one whose life is over: its handle may name another by now, or one that is
// only being made (580.159 crashes). Chains have theirs by epochs::enter.
class scoped_context {
 public:
  explicit scoped_context(CUcontext context,
                          context_visits::if_ending then = context_visits::if_ending::refuse,
                          counted_life const& life = {}) noexcept {
    auto const is_gone = [&life] { return life.is_over() && !GPUMEM_MUTANT(gone_entered); };
    code_ = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (is_gone()) return;
    if (is_current(context)) {
      // The thread's own new one may have got the handle before whoever ended this one says so.
      if (!life.is_anothers(context)) code_ = CUDA_SUCCESS;
      return;
    }
    if (!context_visits::enter(context, then)) return;
    // Asked inside: whoever ended it has said so before others could enter.
    if (!is_gone()) code_ = driver::asked(driver::real.cuCtxPushCurrent_v2, context);
    if (code_ == CUDA_SUCCESS) {
      pushed_ = context;
    } else {
      context_visits::leave(context);
    }
  }
  ~scoped_context() {
    if (pushed_ == nullptr) return;
    CUcontext popped = nullptr;
    // One that stayed would be the program's current context from now on, whatever the code.
    CUresult code = driver::real.cuCtxPopCurrent_v2(&popped);
    for (int i = 0; i < 3 && code != CUDA_SUCCESS && is_current(pushed_); ++i)
      code = driver::real.cuCtxPopCurrent_v2(&popped);
    context_visits::leave(pushed_);
  }
  scoped_context(scoped_context const&) = delete;
  scoped_context& operator=(scoped_context const&) = delete;

  // False: the context has ended or may be ending, or this is a host function: a call would act on whichever
  // is current.
  bool is_there() const noexcept { return code_ == CUDA_SUCCESS; }
  // The driver's refusal.
  CUresult code() const noexcept { return code_; }

 private:
  CUresult code_;
  CUcontext pushed_ = nullptr;
};

}  // namespace gpumem::stream_order
