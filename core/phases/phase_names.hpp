// The name that a phase is kept under: what the program calls it, with each number replaced by N, so that
// "step 17" and "seq = 17" are one phase however often they come. Digits that belong to a word stay: conv2d,
// layer3, fp16. Pure; any bytes, of which the first 103 are kept, cut between two characters of UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpumem::phases {

inline constexpr std::size_t longest_name = 103;
struct phase_name {
  char text[longest_name + 1] = {};
  std::size_t length = 0;

  std::string_view view() const noexcept { return {text, length}; }
};

// Behind a domain, if it has a name: "domain:name". "(no name)" of none.
phase_name name_of_phase(std::string_view domain, std::string_view name) noexcept;

}  // namespace gpumem::phases
