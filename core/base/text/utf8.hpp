// UTF-8 by hand: the checks of a file and the columns of messages must agree on what one character is. Used
// by the check of a file's text and by printable.hpp; pure, no locale.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpumem::base {

// The length of the UTF-8 sequence at the front, 0 if it is none.
inline std::size_t utf8_sequence(std::string_view text) noexcept {
  auto const byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned const first = byte(0);
  if (first < 0x80) return 1;
  std::size_t const size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  }
  unsigned const second = byte(1);
  bool const overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  bool const outside = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return overlong || outside ? 0 : size;
}

}  // namespace gpumem::base
