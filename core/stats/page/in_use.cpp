// See in_use.hpp.
#include "core/stats/page/in_use.hpp"

#include "core/stats/page/ledger.hpp"
#include "core/stats/page/page_state.hpp"

namespace gpumem::stats {

bool in_use_question::answered(std::uint64_t used) noexcept {
  locked const guard;
  bool const of_one_moment = quiet_ && moves_begun.load() == begun_;
  if (!of_one_moment && get(gauges_.used) != 0) return false;
  gauge_change const together(gauges_);
  set(gauges_.used_known, known_);
  set(gauges_.used_movable, movable_);
  set(gauges_.used_segments, segments_);
  set(gauges_.used, used);
  set(gauges_.used_at_ns, elapsed_ns());
  return true;
}

void note_first_unseen(int device) noexcept {
  locked const guard;
  auto& gauge = gauges(device);
  gauge_change const together(gauge);
  set(gauge.first_unseen, when_last_asked(gauge).unseen);
  set(gauge.first_looked, 1);
}

}  // namespace gpumem::stats
