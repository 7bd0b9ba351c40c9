// What captures forbid to threads (measured). A capture in global mode forbids allocations and frees to
// every thread, on any device, also stream-ordered ones on streams that do not capture; one in thread-local
// mode, to the thread that began it. A thread that exchanged its own mode is exempt from one or both. The
// driver refuses such a call with 900, whatever the pointer, and the capture is lost; a call that never
// reaches the driver must do the same. Slow path only, while such a capture runs (epochs::watch).
#pragma once

#include <atomic>

#include "core/driver/question.hpp"
#include "core/driver/table.hpp"

namespace gpumem::stream_order {

// Captures of this process that are not in relaxed mode; kept by epochs.
inline std::atomic<int> watching_captures{0};

inline bool is_refused_for_captures(CUresult code) noexcept {
  return code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

// The driver does not answer here and now (in a host function, beside a capture); the context is well.
inline bool is_refusal(CUresult code) noexcept {
  return code == CUDA_ERROR_NOT_PERMITTED || is_refused_for_captures(code);
}

// Under a current context that has ended a free of null says that instead (measured). A question about a pool
// needs none, and is forbidden as well (measured, where the context was there).
[[gnu::cold, gnu::noinline]] inline CUresult ask_without_context() noexcept {
  auto const& real = driver::real;
  CUmemoryPool pool = nullptr;
  cuuint64_t threshold = 0;
  if (real.cuDeviceGetDefaultMemPool == nullptr || real.cuMemPoolGetAttribute == nullptr ||
      driver::asked(real.cuDeviceGetDefaultMemPool, &pool, 0) != CUDA_SUCCESS)
    return CUDA_SUCCESS;
  return driver::asked(real.cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
}

// CUDA_SUCCESS, or the driver's refusal, with its consequence: a call that it forbids in the same way and
// that does nothing else. The driver alone knows all threads' modes and captures.
[[gnu::cold, gnu::noinline]] inline CUresult ask_captures() noexcept {
  if (watching_captures.load(std::memory_order_acquire) == 0) return CUDA_SUCCESS;
  CUresult code = driver::asked(driver::real.cuMemFree_v2, CUdeviceptr{0});
  if (code == CUDA_ERROR_CONTEXT_IS_DESTROYED) code = ask_without_context();
  return is_refused_for_captures(code) ? code : CUDA_SUCCESS;
}

}  // namespace gpumem::stream_order
