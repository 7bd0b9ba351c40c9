// A view of memory of this process that may not be there (own_memory.hpp), by pieces of 1 KiB: those where
// something was found last are read in one system call, others in one each. What was read stays as it was
// then: for memory that does not change meanwhile, as the frames of the thread that reads. On the stack of
// its user (8 KiB); one thread, no heap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpumem::base {

class own_memory_pieces {
 public:
  static constexpr std::size_t piece_bytes = 1024;
  static constexpr std::size_t most_pieces = 8;
  struct places {
    std::array<std::uintptr_t, most_pieces> begins{};
    std::size_t count = 0;
  };

  // `expected`: what places_used() of an earlier view said; its contents are read anew.
  explicit own_memory_pieces(places const& expected) noexcept;
  own_memory_pieces(own_memory_pieces const&) = delete;

  // False: not all of it is there.
  bool read(void const* from, void* to, std::size_t bytes) noexcept;
  template <typename value>
  bool read_value(void const* from, value& to) noexcept {
    return read(from, &to, sizeof to);
  }
  // Where something was read from, in that order.
  places const& places_used() const noexcept { return used_; }

 private:
  struct piece {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;  // that are there
    bool used = false;
  };
  piece* find(std::uintptr_t begin) noexcept;
  piece* fetch(std::uintptr_t begin) noexcept;

  std::array<piece, most_pieces> pieces_;
  std::size_t count_ = 0;
  std::size_t next_ = 0;  // is read over when all are there
  places used_;
  std::array<std::array<char, piece_bytes>, most_pieces> held_;
};

}  // namespace gpumem::base
