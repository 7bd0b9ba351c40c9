// The leave that a call which no chain serves asks of the limits before the driver is asked, and the note of
// what it took. Lives on the stack of a hook, on any thread; what was not kept goes back at its end.
#pragma once

#include "core/route/limits.hpp"
#include "shim/hook.hpp"
#include "shim/observed_memory.hpp"

namespace gpumem::shim {

class admission {
 public:
  // On the device of the current context; without one the driver is to answer, and nothing is noted.
  admission(hook which, std::uint64_t bytes) noexcept;
  admission(hook which, std::uint64_t bytes, int device) noexcept;
  ~admission();
  admission(admission const&) = delete;
  admission& operator=(admission const&) = delete;

  explicit operator bool() const noexcept { return granted_; }

  // The call succeeded and took `bytes`, to be given back under `key`.
  void keep(observed_kind kind, std::uint64_t key, std::uint64_t bytes) noexcept;
  // The same where somebody else remembers it.
  void keep(std::uint64_t bytes) noexcept;

 private:
  CUcontext context_ = nullptr;
  int device_ = no_device;
  std::uint64_t bytes_;
  bool granted_ = true;

  static constexpr int no_device = -1;
};

}  // namespace gpumem::shim
