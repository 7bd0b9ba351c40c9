// See printable.hpp.
#include "core/base/text/printable.hpp"

#include "core/base/text/utf8.hpp"

namespace gpumem::base {
namespace {

char32_t code_point(std::string_view sequence) noexcept {
  auto const first = static_cast<unsigned char>(sequence.front());
  if (sequence.size() == 1) return first;
  char32_t code = first & (0xFFu >> (sequence.size() + 1));
  for (char const letter : sequence.substr(1))
    code = code << 6 | (static_cast<unsigned char>(letter) & 0x3Fu);
  return code;
}

bool is_obeyed(char32_t code) noexcept {
  bool const control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  bool const line_end = code == 0x2028 || code == 0x2029;
  bool const direction = code == 0x061C || code == 0x200E || code == 0x200F ||
                         (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return control || line_end || direction;
}

std::string kept(std::string_view text, std::string_view controls) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    if (controls.find(text.front()) != controls.npos) {
      safe += text.front();
      text.remove_prefix(1);
    } else {
      safe += next_printable(text);
    }
  }
  return safe;
}

}  // namespace

std::string_view next_printable(std::string_view& text) noexcept {
  std::size_t const size = utf8_sequence(text);
  std::string_view const letter = text.substr(0, size);
  text.remove_prefix(size == 0 ? 1 : size);
  return size == 0 || is_obeyed(code_point(letter)) ? "?" : letter;
}

std::string printable(std::string_view line) {
  return kept(line, "");
}
std::string printable_lines(std::string_view text) {
  return kept(text, "\n\t");
}

}  // namespace gpumem::base
