// The terms of the report and what they mean, from glossary.def. Used by `gpumem report --explain` and by
// tests. Constant data; any thread.
#pragma once

#include <span>
#include <string_view>

namespace gpumem::report {

struct term {
  std::string_view name;  // and whatever else the report calls it: "pending|freed, work not known to be done"
  std::string_view meaning;

  std::string_view first_name() const noexcept { return name.substr(0, name.find('|')); }
};

inline constexpr term glossary[] = {
#define GPUMEM_TERM(name, meaning) {name, meaning},
#include "core/report/glossary.def"
#undef GPUMEM_TERM
};

}  // namespace gpumem::report
