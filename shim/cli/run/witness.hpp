// Was a signal sent to us alone, or to our process group, of which the program is a member as well? Nothing
// that the kernel tells with a signal says so. The witness is a process that only sits in the group: what it
// gets was sent to all, and the program has it already. Made by `gpumem run`; one thread.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <array>
#include <cstdint>

namespace gpumem::cli {

class witness {
 public:
  // Forks it; `watched` are blocked in the caller already. Without one (no process to be had) none is seen.
  explicit witness(sigset_t const& watched) noexcept;
  ~witness();
  witness(witness const&) = delete;
  witness& operator=(witness const&) = delete;

  pid_t process() const noexcept { return process_; }
  // Whether it got this signal just now, or gets it within a moment; each that it got is told once.
  bool saw(int number) noexcept;

 private:
  int notes_ = -1;  // one byte for each signal
  std::array<std::uint64_t, 65> seen_ns_{};
  pid_t process_ = -1;
};

}  // namespace gpumem::cli
