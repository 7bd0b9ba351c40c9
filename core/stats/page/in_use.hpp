// How much of a device the driver says is in use, noted together with what the ledger held at that moment:
// figures of two moments must not be subtracted. A thread that moves memory between driver and ledger holds
// a memory_move meanwhile; an answer that came during one is not noted. Any thread, slow paths. The parts
// of an answer are read together: in this process under the page's lock, in others as gauge_change says.
#pragma once

#include <atomic>

#include "core/stats/page/state_page.hpp"

namespace gpumem::stats {

inline std::atomic<std::uint64_t> moves_begun{0};
inline std::atomic<std::uint64_t> moves_ended{0};

class memory_move {
 public:
  memory_move() noexcept { moves_begun.fetch_add(1); }
  ~memory_move() { moves_ended.fetch_add(1); }
  memory_move(memory_move const&) = delete;
};

// Made before the driver is asked.
class in_use_question {
 public:
  explicit in_use_question(int device) noexcept
      : gauges_(gauges(device)),
        quiet_(moves_ended.load() == moves_begun.load()),
        begun_(moves_begun.load()),
        known_(get(gauges_.reserved) + get(gauges_.observed)),
        movable_(get(gauges_.movable)),
        segments_(get(gauges_.segments)) {}

  // The driver's answer; false: memory was on its way meanwhile, and it is not noted. The first is, in any
  // case.
  bool answered(std::uint64_t used) noexcept;

 private:
  device_gauges& gauges_;
  bool const quiet_;
  std::uint64_t const begun_;
  std::uint64_t const known_;
  std::uint64_t const movable_;
  std::uint64_t const segments_;
};

// What is unseen now is what this process found when it first looked.
void note_first_unseen(int device) noexcept;

}  // namespace gpumem::stats
