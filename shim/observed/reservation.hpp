// Reserves against the limits, before a call that no chain serves reaches the driver; commit() notes what
// it took, the destructor returns the rest. Lives on the stack of a hook, on any thread.
#pragma once

#include "core/driver/request.hpp"
#include "shim/observed/observed_memory.hpp"
#include "shim/symbols/hook.hpp"

namespace gpumem::shim {

// Whose memory a call takes: the device, and the context that takes it along at its end (null: none does).
struct owner_of_memory {
  int device = -1;  // none: the driver is to answer, and nothing is noted
  CUcontext context = nullptr;
  void const* caller = nullptr;  // the code that asked
  bool is_current = false;       // that context, or that of a default stream, is the thread's current one
};
// Of the current context. `caller`: the code that asks.
owner_of_memory current_owner(void const* caller = nullptr) noexcept;
// Of a stream's device: memory of the driver's pools, which outlives every context.
owner_of_memory owner_by_stream(CUstream stream, void const* caller) noexcept;

class reservation {
 public:
  reservation(hook which, std::uint64_t bytes, owner_of_memory const& owner) noexcept;
  ~reservation();
  reservation(reservation const&) = delete;
  reservation& operator=(reservation const&) = delete;

  explicit operator bool() const noexcept { return code_ == CUDA_SUCCESS; }
  // What the program is told when nothing could be reserved.
  CUresult code() const noexcept { return code_; }

  // The call succeeded and took `bytes`, to be given back under `key`.
  void commit(observed_kind kind, std::uint64_t key, std::uint64_t bytes, bool movable = false) noexcept;
  // The same where somebody else remembers it: what to remember, and then that it is.
  route::observed_bytes taken(std::uint64_t bytes, bool movable = false) const noexcept;
  void commit(route::observed_bytes const& held) noexcept;

 private:
  stats::memory_move const move_;
  arrival const arrival_;
  owner_of_memory owner_;
  std::uint64_t const bytes_;
  CUresult code_ = CUDA_SUCCESS;
};

}  // namespace gpumem::shim
