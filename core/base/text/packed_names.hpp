// A list of names as one constant without addresses. A table of pointers would be relocated by the loader,
// and its pages copied, in every preloaded process. Made by the compiler from string literals that each end
// with an explicit "\0". Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpumem::base {

template <std::size_t Count, std::size_t Size>
class packed_names {
 public:
  explicit consteval packed_names(char const (&text)[Size]) {
    std::size_t count = 0;
    for (std::size_t i = 0; i + 1 < Size; ++i) {  // the literal's own end is no name's
      if (i == 0 || text[i - 1] == 0) starts_.at(count++) = static_cast<std::uint16_t>(i);
      text_[i] = text[i];
    }
    starts_.at(count) = static_cast<std::uint16_t>(Size - 1);
    if (count != Count || Size > UINT16_MAX) throw "as many names as are counted, and no longer than 64 KiB";
  }

  // What follows the view is a null.
  constexpr std::string_view operator[](std::size_t i) const noexcept {
    return {text_.data() + starts_[i], static_cast<std::size_t>(starts_[i + 1] - starts_[i] - 1)};
  }
  static constexpr std::size_t size() noexcept { return Count; }

 private:
  std::array<char, Size> text_{};
  std::array<std::uint16_t, Count + 1> starts_{};
};

template <std::size_t Count, std::size_t Size>
consteval packed_names<Count, Size> pack_names(char const (&text)[Size]) {
  return packed_names<Count, Size>(text);
}

}  // namespace gpumem::base
