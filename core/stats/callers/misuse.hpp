// Faults of the program that a debugging resource saw: a block freed twice, an address that is no block, a
// red zone that was written to. All are counted in the state page, the first ones kept with all that is
// known, and each is said at once in a message. Any thread, with no lock of core held: it formats and
// writes.
#pragma once

#include "core/stats/callers/call_sites.hpp"

namespace gpumem::stats {

struct misuse {
  misuse_kind kind;
  std::size_t node = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t damaged = 0;
  call_site here = no_site;
  call_site allocated_at = no_site;
  call_site freed_at = no_site;
};
// Kept in the page for the report, and said at once.
void note_misuse(misuse const& what) noexcept;

}  // namespace gpumem::stats
