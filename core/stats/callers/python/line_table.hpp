// Which line of a Python file an instruction is of, by the table of its code object, in the formats of
// CPython 3.9 (Objects/lnotab_notes.txt), 3.10 (PEP 626) and from 3.11 on (Objects/locations.md). Reads the
// table piece by piece as memory that may not be there. Any thread, no heap.
#pragma once

#include <cstddef>

#include "core/base/own_memory_pieces.hpp"
#include "core/stats/callers/python/interpreter.hpp"

namespace gpumem::stats::python {

struct line_table {
  void const* bytes;
  std::size_t size;
  lines_of format;
};

// `instruction` counts bytes of the code. 0: not told, as of instructions that have no line.
std::uint32_t line_in(base::own_memory_pieces& memory, line_table const& table, std::uint32_t first_line,
                      std::uint64_t instruction) noexcept;

}  // namespace gpumem::stats::python
