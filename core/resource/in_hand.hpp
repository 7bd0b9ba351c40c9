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
  // told that the memory leaves it. What it held before it lets go of.
  void hold(stream_order::epochs const& of, std::uint32_t life, std::uint64_t address,
            std::uint64_t bytes) noexcept {
    hold(of, life, address, bytes, false);
  }
  // The same of memory that the driver has just given.
  void take_in(stream_order::epochs const& of, std::uint32_t life, std::uint64_t address,
               std::uint64_t bytes) noexcept {
    hold(of, life, address, bytes, true);
  }
  void let_go() noexcept;
  // A free of it was on its way to the driver when it was taken in.
  bool was_passed() const noexcept { return was_passed_; }
  // Whether another thread than that of `mine`, which may be null, holds bytes of these that its context has
  // lost: the driver has given them to this one.
  static bool is_anothers(stream_order::epochs const& of, std::uint64_t address, std::uint64_t bytes,
                          in_hand const* mine) noexcept;

  // In a forked child: its parent's other threads are not there to let go.
  static void forget_all() noexcept;

 private:
  friend class hands;
  void hold(stream_order::epochs const& of, std::uint32_t life, std::uint64_t address, std::uint64_t bytes,
            bool comes) noexcept;

  stream_order::epochs const* of_ = nullptr;
  std::uint32_t life_ = 0;
  std::uint64_t address_ = 0, bytes_ = 0;
  in_hand *before_ = nullptr, *after_ = nullptr;
  bool in_list_ = false, was_passed_ = false;
  bool comes_ = false;  // from the driver; else it may be there already, and the address be the program's
};

// A free on its way to the driver, of an address that was nobody's here when it was looked up: by now the
// next context of the device may have memory there, which the driver would take from under a pool. Either
// this sees the hand of whoever was given that, or that one sees this. Made by the router (passing_free
// there).
class passing_free {
 public:
  explicit passing_free(std::uint64_t address) noexcept;
  ~passing_free();
  passing_free(passing_free const&) = delete;

  // A thread has it in hand, from the driver, and would lose it.
  bool is_in_hand() const noexcept { return is_in_hand_; }
  // Whether a free of an address among these bytes is on its way.
  static bool is_under_way(std::uint64_t address, std::uint64_t bytes) noexcept;

 private:
  friend class hands;
  std::uint64_t const address_;
  bool is_in_hand_ = false;
  passing_free *before_ = nullptr, *after_ = nullptr;
};

}  // namespace gpumem::resource
