// Writes text to a descriptor by plain write(2) from a fixed buffer: no heap, no stdio, no locale. For lines
// of output that must get out of any program in any state, at exit too. Not thread-safe; one writer lives on
// one stack. Must never touch errno as the program sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpumem::base {

// How long whoever reads a pipe, a terminal or a socket is waited for while it takes nothing: what nobody
// reads must not hold a program.
inline constexpr std::uint64_t patience_for_line_ns = 1'000'000'000, patience_for_report_ns = 10'000'000'000,
                               for_ever_ns = ~std::uint64_t{0};

// All of `text`, through short writes and EINTR; false when the descriptor refuses, or nobody reads.
bool write_all(int descriptor, std::string_view text,
               std::uint64_t patience_ns = patience_for_line_ns) noexcept;
// The same with the reason: 0, ETIMEDOUT where nobody reads, or the error number of the write that was
// refused.
int write_all_or_errno(int descriptor, std::string_view text,
                       std::uint64_t patience_ns = patience_for_line_ns) noexcept;

class line_writer {
 public:
  explicit line_writer(int descriptor) noexcept : descriptor_(descriptor) {}
  line_writer(line_writer const&) = delete;
  line_writer& operator=(line_writer const&) = delete;
  ~line_writer() { flush(); }

  line_writer& operator<<(std::string_view text) noexcept;
  line_writer& operator<<(char letter) noexcept { return *this << std::string_view(&letter, 1); }
  line_writer& operator<<(std::uint64_t number) noexcept;
  line_writer& operator<<(std::int64_t number) noexcept;
  line_writer& operator<<(int number) noexcept { return *this << static_cast<std::int64_t>(number); }

  // False when any write failed so far.
  bool flush() noexcept;

 private:
  int descriptor_;
  bool good_ = true;
  std::size_t used_ = 0;
  char buffer_[4096];
};

}  // namespace gpumem::base
