// A word that its owner writes, under a lock of its own, while others look at it without one: each read and
// each write is whole, and orders nothing. What such a look sees may be over; whoever looks must bear that.
// Costs what a plain word costs. Any thread.
#pragma once

#include <atomic>

namespace gpumem::base {

template <typename T>
class relaxed {
 public:
  relaxed() noexcept = default;  // of no value, as in a plain word
  relaxed(relaxed const&) = delete;
  operator T() const noexcept {
    return std::atomic_ref<T>(const_cast<T&>(value_)).load(std::memory_order_relaxed);
  }
  relaxed& operator=(T value) noexcept {
    std::atomic_ref<T>(value_).store(value, std::memory_order_relaxed);
    return *this;
  }
  relaxed& operator=(relaxed const& other) noexcept { return *this = static_cast<T>(other); }
  relaxed& operator+=(T more) noexcept { return *this = static_cast<T>(*this) + more; }

 private:
  T value_;
};

}  // namespace gpumem::base
