// What a hooked symbol means to the reader of a report: the runtime call by which people know it, and whether
// it takes or gives back memory. Pure; used by the document and the findings.
#pragma once

#include <string_view>

namespace gpumem::report {

enum class call_kind { allocate, free, other };

struct symbol_name {
  std::string_view runtime;  // "" where there is none
  call_kind kind = call_kind::other;
};

// Of "cuMemAllocAsync_ptsz", "cuMemFree_v2", ... The route is the hook's: every free route frees.
symbol_name describe_symbol(std::string_view symbol, std::string_view route) noexcept;

}  // namespace gpumem::report
