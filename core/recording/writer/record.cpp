// See record.hpp. A thread that is between its stamp and its event is marked `busy`: the recorder takes out
// nothing that could be later than what it is about to say.
#include "core/recording/writer/record.hpp"

#include <sched.h>

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/recording/stamp.hpp"
#include "core/recording/writer/recorder_state.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::recording {

constinit std::atomic<bool> active{false};
constinit std::atomic<recorder_state*> recorder{nullptr};

namespace {

constexpr std::uint64_t call_every = 4096;  // events
constexpr std::uint64_t look_every_ns = 5'000'000;
constexpr std::uint64_t room_patience_ns = 1'000'000'000;  // with a recorder that gets no processor

bool wait_for_room(recorder_state& s, ring_state& ring, std::uint64_t head) noexcept {
  std::uint64_t const begun = base::now_ns();
  for (;;) {
    auto const since = s.room.rung();
    ring.tail_seen = ring.tail.load(std::memory_order_acquire);
    if (head - ring.tail_seen < ring_events) return true;
    if (!is_on()) return false;
    s.work.ring();
    if (s.frames.blocked()) {
      stop_recording(s, "the disk did not take what was recorded in time");
      return false;
    }
    if (base::now_ns() - begun > room_patience_ns) {
      stop_recording(s, "events came faster than they could be written");
      return false;
    }
    s.room.wait(since, look_every_ns);  // the recorder needs the processor
  }
}

void put(recorder_state& s, std::size_t number, ring_state& ring, event const& one) noexcept {
  std::uint64_t const head = ring.head.load(std::memory_order_relaxed);
  if (head - ring.tail_seen >= ring_events && !wait_for_room(s, ring, head)) [[unlikely]]
    return;
  ring.busy.store(1, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::uint64_t const now = stamp_now(s.monotonic);
  ring.last_stamp = std::max(now, ring.last_stamp + 1);
  event& place = s.area.get()->events[number][head % ring_events];
  place = one;
  place.stamp = ring.last_stamp;
  ring.head.store(head + 1, std::memory_order_release);
  ring.busy.store(0, std::memory_order_release);
  if (head % call_every == call_every - 1) [[unlikely]]
    s.work.ring_sleeper();
}

void put_of_thread(recorder_state& s, std::size_t number, std::uint64_t thread, event const& one) noexcept {
  ring_state& ring = s.area.ring(number);
  auto const id = static_cast<std::uint32_t>(thread);
  if (ring.owner != id) [[unlikely]] {
    ring.owner = id;
    put(s, number, ring, {.number = id, .what = action::thread});
  }
  put(s, number, ring, one);
}

}  // namespace

void note(event const& one) noexcept {
  recorder_state* const s = recorder.load(std::memory_order_acquire);
  stats::shard& mine = stats::local();
  stats::page const* const page = stats::current_page();
  if (s == nullptr || page == nullptr) return;
  std::size_t const number = std::min(stats::shard_number(*page, mine), max_rings - 1);
  if (number < max_rings - 1) [[likely]]
    return put_of_thread(*s, number, stats::get(mine.owner), one);
  base::uncancelled const held;
  while (s->last_ring.test_and_set(std::memory_order_acquire)) ::sched_yield();
  put_of_thread(*s, number, stats::get(mine.owner), one);
  s->last_ring.clear(std::memory_order_release);
}

}  // namespace gpumem::recording
