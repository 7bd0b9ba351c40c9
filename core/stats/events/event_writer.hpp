// Writes events as lines of a file. Used by event_log only, by one thread at a time; no heap, no locale.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/files/kept_file.hpp"
#include "core/stats/events/event_log.hpp"

namespace gpumem::stats {

struct stamped_event {
  event what;
  std::uint64_t wall_ns = 0;
  std::uint32_t thread = 0;
};

class event_writer {
 public:
  // A file by this pattern, with its first line. False, and a message, when it cannot be had.
  bool create(char const* pattern) noexcept;
  void add(stamped_event const& one) noexcept;  // one line; written when the buffer is full
  void flush() noexcept;                        // whole lines

 private:
  static constexpr std::size_t longest_line = 512;

  void put(char letter) noexcept { text_[used_++] = letter; }
  void put(char const* words) noexcept;
  void put_name(char const* name, std::size_t most) noexcept;
  void put_number(std::uint64_t number, int digits = 1) noexcept;
  void put_hex(std::uint64_t number) noexcept;
  void put_time(std::uint64_t wall_ns) noexcept;

  base::kept_file file_;
  std::int64_t utc_offset_ns_ = 0;
  std::uint64_t last_ns_ = 0;
  bool lost_ = false;
  std::size_t used_ = 0;
  char text_[64 * 1024];
};

}  // namespace gpumem::stats
