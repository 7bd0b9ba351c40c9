// See mutator.hpp.
#include "tests/fuzz/readers/mutator.hpp"

#include <algorithm>
#include <cstring>

namespace gpumem::tests {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view pieces[] = {"\x1b]0;x\x07\x1b[2J",
                                       "\xc2\x9b"
                                       "31m",
                                       "\xff\xfe",
                                       "\xed\xa0\x80",
                                       "{}{:d}%s%n",
                                       "\n\r\t\0"sv,
                                       "\xe2\x80\xae",
                                       "/dev/zero\0"sv,
                                       "../../../../etc/passwd\0"sv,
                                       "\"",
                                       "'",
                                       "[",
                                       "]",
                                       "{",
                                       "}",
                                       "[[[[[[[[[[[[[[[[",
                                       ",",
                                       ":",
                                       "=",
                                       "null",
                                       "true",
                                       "-1",
                                       "1e400",
                                       "18446744073709551615",
                                       "18446744073709551616",
                                       "-9223372036854775808",
                                       "0.5",
                                       "[]",
                                       "{}",
                                       "\"\\u001b[31m\\u009b\"",
                                       "\"\\ud800\"",
                                       "[[rule]]\n",
                                       "[resource.pool]\n",
                                       "[device.1]\npool.growth = 1\n",
                                       "type = \"binning\"\n",
                                       "\"passthrough\"",
                                       "\"100 % of total\"",
                                       "a.a.a.a.a.a.a.a",
                                       "'''",
                                       "\"\"\"",
                                       "#",
                                       "??:0\n",
                                       "?? ??:?\n",
                                       "f(int)\n/a/b.cpp:31 (discriminator 2)\n",
                                       "/x:99999999999999999999\n",
                                       "_ZZZZZZZZ",
                                       "_Z1fIJ"};

}  // namespace

std::string mutator::number(std::uint64_t size) {
  std::uint64_t const edges[] = {0,           1,
                                 2,           7,
                                 63,          64,
                                 65,          255,
                                 256,         1023,
                                 1024,        4095,
                                 4096,        65'535,
                                 1ull << 20,  1ull << 31,
                                 0x7fff'ffff, 0xffff'ffff,
                                 1ull << 32,  1ull << 40,
                                 1ull << 63,  (1ull << 63) - 1,
                                 ~0ull,       ~7ull,
                                 size,        size - 1,
                                 size - 8};
  std::uint64_t const value = one_of(edges);
  std::size_t const widths[] = {1, 2, 4, 8};
  return {reinterpret_cast<char const*>(&value), one_of(widths)};
}

edit mutator::overwrite(std::uint64_t offset, std::uint64_t size, std::string_view old) {
  edit made{offset, {}};
  if (std::size_t const way = below(10); way < 3) {
    made.bytes = std::string(1, static_cast<char>((old.empty() ? 0 : old[0]) ^ (1 << below(8))));
  } else if (way < 7) {
    made.bytes = number(size);
    made.offset -= made.offset % made.bytes.size();
  } else if (way < 9) {
    made.bytes = one_of(pieces);
  } else {
    for (std::size_t count = below(300); count != 0; --count) made.bytes += static_cast<char>(random_());
  }
  if (made.offset + made.bytes.size() > size) made.bytes.resize(size - std::min(size, made.offset));
  return made;
}

void mutator::change(std::string& text, std::vector<std::string> const& others) {
  std::size_t const at = below(text.size() + 1);
  switch (below(8)) {
    case 0:
    case 1:
      if (!text.empty()) {
        edit const made =
            overwrite(std::min(at, text.size() - 1), text.size(), std::string_view(text).substr(at));
        text.replace(made.offset, made.bytes.size(), made.bytes);
      }
      break;
    case 2:
    case 3:
      text.insert(at, one_of(pieces));
      break;
    case 4:
      text.erase(at, 1 + below(60));
      break;
    case 5:
      text.insert(at, text.substr(below(text.size()), below(400)));
      break;
    case 6: {
      std::string const& other = one_of(others);
      text.insert(at, other.substr(below(other.size()), below(200)));
      break;
    }
    default:
      if (below(5) == 0) text.resize(at);
  }
}

std::string mutator::damaged(std::string text, std::vector<std::string> const& others) {
  std::size_t const counts[] = {1, 1, 2, 3, 6, 20};
  for (std::size_t count = one_of(counts); count != 0; --count) change(text, others);
  return text;
}

}  // namespace gpumem::tests
