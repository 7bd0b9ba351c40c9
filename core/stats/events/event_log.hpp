// A file with one line for each allocation and free, in an order that can be replayed: a free stands behind
// its allocation, and before the next allocation of its address. Filled by the resource `logging`, any
// thread, inside the program's calls: an event takes a number by one atomic addition and is copied into a
// ring. Whoever finds a quarter of the ring full writes the lines, one thread at a time; others wait only
// when the ring is full. Never destroyed; a forked child opens files of its own.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpumem::stats {

class event_writer;

struct event {
  enum class action : std::uint8_t { allocate, allocate_failure, free };
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
  void const* caller = nullptr;  // null: not known, nor is `hook`
  std::uint16_t hook = 0;
  std::int16_t device = 0;
  action what = action::allocate;
  char const* kind = "device";  // device | managed | host; constant
};

class event_log {
 public:
  // The log of this pattern in this process, made at its first use. Null, and a message, when its file cannot
  // be had. For slow paths.
  static event_log* open(char const* pattern, bool write_through) noexcept;
  // A parent's thread that was in open() does not leave it here.
  static void forget_in_child() noexcept;

  // Any thread; no heap. Writes the file itself now and then, and waits where the ring is full.
  void add(event const& one) noexcept;

  // Before the process ends or is replaced: everything is written, and what comes later is written at once.
  // Gives up after a short while on events that their threads did not complete.
  static void finish_all() noexcept;

 private:
  struct slot;
  static event_log* find(char const* pattern) noexcept;
  event_log() = default;
  bool write_ready(bool last) noexcept;

  static constexpr std::uint64_t ring_size = 1 << 14;
  static constexpr std::uint64_t write_at = ring_size / 4;

  event_log* next_log_ = nullptr;
  long pid_ = 0;
  char pattern_[512] = {};
  slot* ring_ = nullptr;
  event_writer* to_ = nullptr;
  std::atomic<bool> write_through_{false};
  alignas(64) std::atomic<std::uint64_t> next_{0};     // the number of the next event
  alignas(64) std::atomic<std::uint64_t> written_{0};  // events below it are in the file
  std::atomic<std::uint64_t> written_at_ns_{0};
  std::atomic_flag writing_{};
};

}  // namespace gpumem::stats
