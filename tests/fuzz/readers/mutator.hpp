// Damages bytes the way that has found faults in readers before: turned bits, numbers at the edges of their
// types and of the file, cut and doubled parts, and text that a terminal would obey. The same seed gives the
// same damage.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace gpumem::tests {

struct edit {
  std::uint64_t offset = 0;
  std::string bytes;  // in file_position of as many
};

class mutator {
 public:
  explicit mutator(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  template <typename Items>
  auto const& one_of(Items const& items) {
    return items[below(std::size(items))];
  }

  // One change that keeps the length, near `offset` in something of `size` bytes.
  edit overwrite(std::uint64_t offset, std::uint64_t size, std::string_view old);
  // Several changes of any kind.
  std::string damaged(std::string text, std::vector<std::string> const& others);

 private:
  std::string number(std::uint64_t size);
  void change(std::string& text, std::vector<std::string> const& others);

  std::mt19937_64 random_;
};

}  // namespace gpumem::tests
