// What is live: the event that took each block, segment or observed piece of memory, by its key. An open
// hash table in pages of its own, as it grows in the program's process, on a thread that must not enter the
// program's heap. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/recording/event.hpp"

namespace gpumem::recording {

class live_set {
 public:
  live_set() = default;
  live_set(live_set const&) = delete;
  live_set& operator=(live_set const&) = delete;
  ~live_set();

  struct change {
    bool known = true;  // false: given back without having been taken, or taken twice
    event before{};     // what was taken, where it was given back or taken again
  };
  // Nothing but what is taken and given back changes it. Without memory for it `full()` is true from then on.
  change apply(event const& one) noexcept;
  bool full() const noexcept { return full_; }

  event const* find(key_kind keys, std::uint64_t address) const noexcept;
  std::size_t size() const noexcept { return used_; }
  template <typename Visit>
  void each(Visit visit) const {
    for (std::size_t i = 0; i < places_; ++i) {
      if (table_[i].what != action::none) visit(table_[i]);
    }
  }
  void clear() noexcept;

 private:
  static key_kind kind_of(event const& one) noexcept { return one.keys; }
  std::size_t place_of(key_kind keys, std::uint64_t address) const noexcept;
  bool grow() noexcept;
  void erase(std::size_t place) noexcept;

  event* table_ = nullptr;
  std::size_t places_ = 0;  // a power of two
  std::size_t used_ = 0;
  bool full_ = false;
};

}  // namespace gpumem::recording
