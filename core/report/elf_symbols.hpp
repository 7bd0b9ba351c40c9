// What code lies at an offset of an ELF file: its address as debuggers count it, and the function's name,
// from the symbol table, or the dynamic one where that is stripped. For reports, in the process itself too:
// the file is read piece by piece, never mapped (it may shrink), nothing of the loader is asked. What cannot
// be read is left unnamed.
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
