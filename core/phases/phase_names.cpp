// See phase_names.hpp.
#include "core/phases/phase_names.hpp"

#include <algorithm>

namespace gpumem::phases {
namespace {

constexpr bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}
constexpr bool is_letter(char c) noexcept {
  auto const lower = static_cast<char>(c | 0x20);
  return (lower >= 'a' && lower <= 'z') || (static_cast<unsigned char>(c) & 0x80) != 0;
}
constexpr bool is_hexadecimal(char c) noexcept {
  auto const lower = static_cast<char>(c | 0x20);
  return is_digit(c) || (lower >= 'a' && lower <= 'f');
}

// The length of the number that begins here: digits that no letter touches, or 0x with what follows. 0: none.
std::size_t number_at(std::string_view text, std::size_t at) noexcept {
  if (!is_digit(text[at]) || (at != 0 && (is_letter(text[at - 1]) || is_digit(text[at - 1])))) return 0;
  std::size_t end = at;
  bool const is_address =
      text[at] == '0' && at + 2 < text.size() && (text[at + 1] | 0x20) == 'x' && is_hexadecimal(text[at + 2]);
  if (is_address) {
    end += 2;
    while (end < text.size() && is_hexadecimal(text[end])) ++end;
  } else {
    while (end < text.size() && is_digit(text[end])) ++end;
  }
  return end < text.size() && is_letter(text[end]) ? 0 : end - at;
}

void add(phase_name& to, std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size() && to.length < longest_name;) {
    std::size_t const number = number_at(text, at);
    to.text[to.length++] = number != 0 ? 'N' : text[at];
    at += std::max<std::size_t>(number, 1);
  }
}

// No part of a character stays behind where the text was cut.
void cut(phase_name& name) noexcept {
  auto const is_rest = [&](std::size_t at) {
    return (static_cast<unsigned char>(name.text[at]) & 0xc0) == 0x80;
  };
  std::size_t at = name.length;
  while (at > 0 && name.length - at < 3 && is_rest(at - 1)) --at;
  if (at == 0) return;
  auto const first = static_cast<unsigned char>(name.text[at - 1]);
  std::size_t const whole = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  if (whole > name.length - at + 1) name.length = at - 1;
}

}  // namespace

phase_name name_of_phase(std::string_view domain, std::string_view name) noexcept {
  phase_name made;
  if (!domain.empty()) {
    add(made, domain.substr(0, 40));
    cut(made);
    made.text[made.length++] = ':';
  }
  add(made, name.empty() ? "(no name)" : name);
  if (made.length == longest_name) cut(made);
  made.text[made.length] = '\0';
  return made;
}

}  // namespace gpumem::phases
