// The functions that the copies of NVTX in a program's libraries call for each range: phases begin and end
// there, and what a tool behind us put in their place is called too, so that it sees what it sees without us.
// Any thread, in the middle of the program.
#pragma once

#include <array>

#include "shim/phases/nvtx_abi.hpp"

namespace gpumem::shim::nvtx {

inline constexpr std::size_t most_functions = 32;  // of one module

// The functions of one copy of NVTX, as they are now.
class functions_of {
 public:
  explicit functions_of(export_table from) noexcept;
  // Ours go where theirs were put since, or where nothing was. False: this copy of NVTX is none that we know.
  bool attach(bool behind_us_is_a_tool) noexcept;
  // What was put there since goes again.
  void restore() noexcept;

 private:
  struct known {
    function_table slots = nullptr;
    unsigned size = 0;
    std::array<function, most_functions> before{};
  };
  void replace(module of, unsigned which, function alone, function with_tool,
               bool behind_us_is_a_tool) noexcept;

  std::array<known, modules> modules_{};
};

}  // namespace gpumem::shim::nvtx
