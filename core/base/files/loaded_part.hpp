// The loaded file that code lies in, and where in the file, by what the loader keeps for unwinders: without a
// lock, so that any thread may ask at any time about code that is loaded for as long as it asks, as what is
// on its own stack is. One call of the system. With a glibc before 2.35 nothing is found.
#pragma once

#include <cstdint>

namespace gpumem::base {

struct loaded_part {
  std::uint64_t begin = 0, end = 0;  // of the part's pages
  std::uint64_t file_offset = 0;     // of `begin`
  char const* path = nullptr;        // the loader's, lives as long as the file is loaded; "": the program
};

// False: made at run time, or known to others only.
bool find_loaded_part(std::uint64_t code, loaded_part& found) noexcept;

}  // namespace gpumem::base
