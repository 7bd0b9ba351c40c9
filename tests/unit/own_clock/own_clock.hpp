// A clock of a test's own, for code that decides by how fast the machine is: it moves when the test says so,
// and by a step at each look, so that who waits for a time gets there. Any thread may look; one at a time
// exists. The clock of the process never goes back: when this one ends the system's goes on from there.
#pragma once

#include <cstdint>

namespace gpumem::tests {

class own_clock {
 public:
  explicit own_clock(std::uint64_t ns_a_look = 0) noexcept;
  ~own_clock();
  own_clock(own_clock const&) = delete;
  own_clock& operator=(own_clock const&) = delete;

  void pass(std::uint64_t ns) noexcept;
};

}  // namespace gpumem::tests
