// How every exported driver function begins: count the call, take the lock, let the clock tick, refuse what
// cannot be, or what is told to fail. SIMULATED_CALL(rules...) is the first line of each; after it the
// machine is locked until the function returns. No exported function may call another one: the lock is not
// recursive. The _ptsz and _ptds forms do, before locking.
#pragma once

#include <pthread.h>

#include "core/base/threads/interleave.hpp"
#include "cuda_api.hpp"
#include "faults.hpp"
#include "machine.hpp"

namespace simulated {

struct rules {
  bool initialised = true;
  bool context = false;  // a live one must be current
  bool unsafe = false;   // forbidden while captures are watched
};
inline constexpr rules any_time{false, false, false}, after_init{}, with_context{true, true, false},
    unsafe_in_capture{true, true, true};

class entry {
 public:
  entry(counter& calls, rules const& needs, char const* function, void const* returns_to)
      : m(machine::get()) {
    calls.fetch_add(1, std::memory_order_relaxed);
    CUresult const told = faults::get().of(function, returns_to);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable_);  // nobody leaves in the middle of a change
    gpumem::base::interleave();
    m.lock_.lock();
    if (told != CUDA_SUCCESS) code = told;
    if (!needs.initialised || told != CUDA_SUCCESS) return;
    code = m.initialised() && !m.forked() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
    if (code != CUDA_SUCCESS) return;
    if (!m.manual_clock_) m.tick(m.now_ + 500);
    if (this_thread().in_host_function) code = CUDA_ERROR_NOT_PERMITTED;
    if (code == CUDA_SUCCESS && needs.context) code = m.current(here);
    if (code == CUDA_SUCCESS && needs.context)
      code = machine::fault_of(here);  // measured: dead_context faulted
    if (code == CUDA_SUCCESS && needs.unsafe) code = m.unsafe_call();
  }
  ~entry() {
    m.lock_.unlock();
    gpumem::base::interleave();  // what the caller knows now it has not written down yet
    pthread_setcancelstate(cancellable_, nullptr);
  }
  entry(entry const&) = delete;
  entry& operator=(entry const&) = delete;

  machine& m;
  context* here = nullptr;
  CUresult code = CUDA_SUCCESS;

 private:
  int cancellable_ = PTHREAD_CANCEL_ENABLE;
};

// Makes stream 0 mean the calling thread's own default stream.
class per_thread_scope {
 public:
  per_thread_scope() { this_thread().per_thread_default = true; }
  ~per_thread_scope() { this_thread().per_thread_default = false; }
};

}  // namespace simulated

#define SIMULATED_CALL(needs)                                                           \
  static ::simulated::counter& calls_ = ::simulated::machine::get().calls_of(__func__); \
  ::simulated::entry call(calls_, needs, __func__, __builtin_return_address(0));        \
  if (call.code != CUDA_SUCCESS) return call.code;                                      \
  [[maybe_unused]] ::simulated::machine& m = call.m;                                    \
  [[maybe_unused]] ::simulated::context* const here = call.here

// The form of `name` that a program built for per-thread default streams calls.
#define SIMULATED_PER_THREAD(name, suffix, parameters, arguments) \
  SIMULATED_API name##suffix parameters {                         \
    ::simulated::per_thread_scope const scope;                    \
    return name arguments;                                        \
  }

#define SIMULATED_TRY(expression) \
  if (CUresult const tried = (expression); tried != CUDA_SUCCESS) return tried
