// A stack of a few values without heap, for places that cannot fail. A value that finds no room is dropped.
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>

namespace gpumem::base {

template <typename Value, std::size_t Most>
class fixed_stack {
 public:
  bool empty() const noexcept { return count_ == 0; }
  std::size_t size() const noexcept { return count_; }
  Value const& back() const noexcept { return values_[count_ - 1]; }
  void push_back(Value value) noexcept {
    if (count_ < Most) values_[count_++] = value;
  }
  void pop_back() noexcept { --count_; }
  void clear() noexcept { count_ = 0; }

 private:
  std::array<Value, Most> values_{};
  std::size_t count_ = 0;
};

}  // namespace gpumem::base
