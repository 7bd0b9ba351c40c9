// Memory of a context that a thread has in its hands, between the driver and a table or two tables: should
// its context end meanwhile, no table says so. Whoever is given its address then waits until that thread has
// told of the loss, or two would have it in the recording. Made on the stack of whoever asks a source for
// memory before it asks, and of whoever takes memory out of a table before it does; holds it until it is in
// the next table, back at the driver, or lost. Slow paths, any thread; takes no lock but its own, for some
// instructions.
#pragma once

#include <cstdint>

#include "core/stream_order/epochs.hpp"

namespace gpumem::resource {

class in_hand {
 public:
  in_hand() = default;
  ~in_hand();
  in_hand(in_hand const&) = delete;

  // Of that life of the context. From where it cannot end: as long as it is entered, or before the table is
  // told that the memory leaves it. Once.
  void hold(stream_order::epochs const& of, std::uint32_t life, std::uint64_t address,
            std::uint64_t bytes) noexcept;
  // Whether another thread holds bytes of these that its context has lost: the driver has given them to
  // `mine`.
  static bool is_anothers(in_hand const& mine) noexcept;

  // In a forked child: its parent's other threads are not there to let go.
  static void forget_all() noexcept;

 private:
  friend class hands;
  stream_order::epochs const* of_ = nullptr;  // null: nothing is held
  std::uint32_t life_ = 0;
  std::uint64_t address_ = 0, bytes_ = 0;
  in_hand *before_ = nullptr, *after_ = nullptr;
};

}  // namespace gpumem::resource
