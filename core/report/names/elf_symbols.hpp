// What code lies at an offset of an ELF file: its address as debuggers count it, and the function's name,
// from the symbol table, or from the dynamic one if the file is stripped. For reports, also inside the
// program's process: reads the file piece by piece, never maps it (it may shrink), and asks nothing of the
// loader. What cannot be read stays unnamed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpumem::report {

struct elf_place {
  std::uint64_t address = 0;  // what addr2line takes
  std::string symbol;         // as the linker knows it; empty: not known
};
using elf_places = std::map<std::uint64_t, elf_place>;  // by file offset

// `offsets` are of return addresses: the call before them is what is named.
elf_places find_places(std::string const& file, std::vector<std::uint64_t> const& offsets);

}  // namespace gpumem::report
