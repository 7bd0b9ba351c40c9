// See record.hpp. A thread that is between its stamp and its event is marked `busy`: the recorder takes out
// nothing that could be later than what it is about to say.
#include "core/recording/writer/record.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/clock.hpp"
#include "core/base/threads/backoff.hpp"
#include "core/base/threads/interleave.hpp"
#include "core/base/threads/sleep.hpp"
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
      s.frames.give_up();
      return false;
    }
    if (base::now_ns() - begun > room_patience_ns) {
      stop_recording(s, "events came faster than they could be written");
      return false;
    }
    s.room.wait(since, look_every_ns);  // the recorder needs the processor
  }
}

enum class order { by_clock, by_block };

template <order by>
[[gnu::always_inline]] inline void put(recorder_state& s, std::size_t number, ring_state& ring,
                                       event_words const& one, std::uint64_t& last) noexcept {
  std::uint64_t const head = ring.head.load(std::memory_order_relaxed);
  if (head - ring.tail_seen >= ring_events && !wait_for_room(s, ring, head)) [[unlikely]]
    return;
  event* const events = s.area.get()->events[number];
  __builtin_prefetch(&events[(head + 12) % ring_events], 1);
  ring.busy.store(1, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  base::interleave();
  std::uint64_t const now = by == order::by_block ? stamp_about_now(s.monotonic) : stamp_now(s.monotonic);
  std::uint64_t const before = by == order::by_block ? std::max(ring.last_stamp, last) : ring.last_stamp;
  last = ring.last_stamp = std::max(now, before + 1);
  event_words const whole{last, one.address, one.bytes, one.stream, one.sizes, one.kinds};
  std::memcpy(static_cast<void*>(&events[head % ring_events]), &whole, sizeof whole);
  base::interleave();
  ring.head.store(head + 1, std::memory_order_release);
  ring.busy.store(0, std::memory_order_release);
  if (head % call_every == call_every - 1) [[unlikely]]
    s.work.ring_sleeper();
}

[[gnu::noinline]] void change_owner(recorder_state& s, std::size_t number, ring_state& ring,
                                    std::uint32_t id) noexcept {
  std::uint64_t none = 0;
  ring.owner = id;
  put<order::by_clock>(s, number, ring,
                       std::bit_cast<event_words>(event{.number = id, .what = action::thread}), none);
}

template <order by>
[[gnu::always_inline]] inline void put_of_thread(recorder_state& s, std::size_t number, std::uint64_t thread,
                                                 event_words const& one, std::uint64_t& last) noexcept {
  ring_state& ring = s.area.ring(number);
  auto const id = static_cast<std::uint32_t>(thread);
  if (ring.owner != id) [[unlikely]]
    change_owner(s, number, ring, id);
  put<by>(s, number, ring, one, last);
}

// More threads than rings: these take turns.
template <order by>
[[gnu::noinline]] void put_in_turns(recorder_state& s, std::uint64_t thread, event_words const& one,
                                    std::uint64_t& last) noexcept {
  base::uncancelled const held;
  base::wait_until([&s] { return !s.last_ring.test_and_set(std::memory_order_acquire); });
  put_of_thread<by>(s, max_rings - 1, thread, one, last);
  s.last_ring.clear(std::memory_order_release);
}

template <order by>
[[gnu::always_inline]] inline void note_by(event_words const& one, std::uint64_t& last) noexcept {
  recorder_state* const s = recorder.load(std::memory_order_acquire);
  stats::shard& mine = stats::local();
  stats::page const* const page = stats::current_page();
  if (s == nullptr || page == nullptr) return;
  std::size_t const number = stats::shard_number(*page, mine);
  if (number < max_rings - 1) [[likely]]
    return put_of_thread<by>(*s, number, stats::get(mine.owner), one, last);
  put_in_turns<by>(*s, stats::get(mine.owner), one, last);
}

// Of this thread alone; null: there is none, and none is to be made.
ring_state* own_ring(bool makes = false) noexcept {
  recorder_state* const s = recorder.load(std::memory_order_acquire);
  stats::page const* const page = stats::current_page();
  if (s == nullptr || page == nullptr) return nullptr;
  std::size_t const number = stats::shard_number(*page, stats::local());
  if (number >= max_rings - 1) return nullptr;
  return makes ? &s->area.ring(number) : s->area.ring_if_made(number);
}

}  // namespace

void mark_free(bool begins) noexcept {
  if (ring_state* const ring = own_ring(begins); ring != nullptr)
    ring->freeing.store(begins ? 1 : 0, std::memory_order_release);
}

bool is_awaited() noexcept {
  ring_state const* const ring = own_ring();
  return ring != nullptr && ring->freeing.load(std::memory_order_relaxed) != 0;
}

// What a thread stores before it takes a block is seen by whoever finds the block taken.
void await_frees() noexcept {
  recorder_state* const s = is_on() ? recorder.load(std::memory_order_acquire) : nullptr;
  if (s == nullptr) return;
  constexpr std::uint64_t patience_ns = 200'000'000;
  area& shared = *s->area.get();
  std::uint64_t const until = base::now_ns() + patience_ns;
  for (std::size_t i = 0, used = shared.head.rings_used.load(std::memory_order_acquire); i < used; ++i) {
    std::atomic<std::uint32_t>& freeing = shared.rings[i].freeing;
    std::uint64_t const begun = base::now_ns();
    while (freeing.load(std::memory_order_acquire) != 0 && base::now_ns() < until) base::sleep_for(20'000);
    // Of a thread that ended there, or is stopped: nobody waits for it again.
    if (base::now_ns() - begun > patience_ns / 2) freeing.store(0, std::memory_order_relaxed);
  }
}

void note(event const& one) noexcept {
  std::uint64_t none = 0;
  note_by<order::by_clock>(std::bit_cast<event_words>(one), none);
}

void note_block(std::uint64_t& last, std::uint64_t address, std::uint64_t bytes, std::uint64_t stream,
                std::uint64_t sizes, std::uint64_t kinds) noexcept {
  note_by<order::by_block>({0, address, bytes, stream, sizes, kinds}, last);
}

}  // namespace gpumem::recording
