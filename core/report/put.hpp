// Fields of the document that stand in it only where there is something to say: what is not known is absent,
// never null, 0 or "". Used by whoever makes a part of the document; pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/report/document_options.hpp"

namespace gpumem::report {

inline void put(document& to, char const* name, std::string const& text) {
  if (!text.empty()) to[name] = text;
}
inline void put(document& to, char const* name, std::optional<std::uint64_t> number) {
  if (number) to[name] = *number;
}
inline std::optional<std::uint64_t> nonzero(std::uint64_t number) {
  return number == 0 ? std::nullopt : std::optional(number);
}

}  // namespace gpumem::report
