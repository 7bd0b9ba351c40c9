// See event_log.hpp.
#include "core/stats/events/event_log.hpp"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "core/base/clock.hpp"
#include "core/base/local_time.hpp"
#include "core/base/threads/backoff.hpp"
#include "core/base/threads/interleave.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/stats/callers/modules.hpp"
#include "core/stats/events/event_writer.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::stats {

// `turn` is n when event n may be put here, n + 1 when it is complete.
struct event_log::slot {
  std::atomic<std::uint64_t> turn;
  stamped_event value;
};

namespace {

constexpr std::uint64_t longest_idle_ns = 1'000'000'000;
constexpr std::uint64_t patience_ns = 200'000'000;  // at the end, for threads that were stopped half-way

constinit std::atomic<event_log*> first_log{nullptr};
constinit std::atomic_flag opening{};

std::uint64_t wall_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint32_t thread_number() noexcept {
  std::uint64_t const known = local().owner;  // kept for this thread's counters
  return static_cast<std::uint32_t>(known != 0 ? known : static_cast<std::uint64_t>(::gettid()));
}

}  // namespace

event_log* event_log::find(char const* pattern) noexcept {
  long const pid = ::getpid();
  for (event_log* log = first_log.load(std::memory_order_acquire); log != nullptr; log = log->next_log_) {
    if (log->pid_ == pid && std::strcmp(log->pattern_, pattern) == 0) return log;
  }
  return nullptr;
}

event_log* event_log::open(char const* pattern, bool write_through) noexcept {
  base::uncancelled const held;
  base::wait_until([] { return !opening.test_and_set(std::memory_order_acquire); });
  event_log* log = find(pattern);
  if (log == nullptr) {
    auto* const made = new (std::nothrow) event_log;
    auto* const to = new (std::nothrow) event_writer;
    void* const ring = ::mmap(nullptr, ring_size * sizeof(slot), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool const good = made != nullptr && to != nullptr && ring != MAP_FAILED &&
                      std::strlen(pattern) < sizeof made->pattern_ && to->create(pattern);
    if (good) {
      open_caller_tables();
      made->pid_ = ::getpid();
      std::strcpy(made->pattern_, pattern);
      made->ring_ = static_cast<slot*>(ring);
      for (std::uint64_t i = 0; i < ring_size; ++i) made->ring_[i].turn.store(i, std::memory_order_relaxed);
      made->to_ = to;
      made->write_through_.store(write_through, std::memory_order_relaxed);
      made->written_at_ns_.store(base::now_ns(), std::memory_order_relaxed);
      made->next_log_ = first_log.load(std::memory_order_relaxed);
      first_log.store(made, std::memory_order_release);
      log = made;
    } else {
      delete made;
      delete to;
      if (ring != MAP_FAILED) ::munmap(ring, ring_size * sizeof(slot));
    }
  }
  opening.clear(std::memory_order_release);
  return log;
}

void event_log::forget_in_child() noexcept {
  base::no_local_time_in_child();
  opening.clear(std::memory_order_release);
}

void event_log::add(event const& one) noexcept {
  std::uint64_t const number = next_.fetch_add(1, std::memory_order_relaxed);
  slot& own = ring_[number % ring_size];
  for (base::backoff<> between; own.turn.load(std::memory_order_acquire) != number;) {
    if (!write_ready(false)) between.wait();
  }
  own.value = {one, wall_ns(), thread_number()};
  base::interleave();
  std::uint64_t mine = number;  // unless the end of the process passed over it
  own.turn.compare_exchange_strong(mine, number + 1, std::memory_order_release, std::memory_order_relaxed);
  if (write_through_.load(std::memory_order_relaxed)) {
    for (base::backoff<> between; written_.load(std::memory_order_acquire) <= number;) {
      if (!write_ready(false)) between.wait();
    }
    return;
  }
  bool const full = number - written_.load(std::memory_order_relaxed) >= write_at;
  bool const old =
      number % 64 == 0 && base::now_ns() - written_at_ns_.load(std::memory_order_relaxed) > longest_idle_ns;
  if (full || old) write_ready(false);
}

// Writes what is complete, in order, one ring at most. False when another thread is at it. `last`: passes
// over events that do not get complete.
bool event_log::write_ready(bool last) noexcept {
  if (writing_.test(std::memory_order_relaxed) || writing_.test_and_set(std::memory_order_acquire))
    return false;
  base::uncancelled const held;
  std::uint64_t number = written_.load(std::memory_order_relaxed);
  std::uint64_t const end = last ? next_.load(std::memory_order_relaxed) : number + ring_size;
  std::uint64_t const give_up = last ? base::now_ns() + patience_ns : 0;
  for (base::backoff<> between; number < end;) {
    slot& oldest = ring_[number % ring_size];
    if (oldest.turn.load(std::memory_order_acquire) == number + 1) {
      to_->add(oldest.value);
      oldest.turn.store(number + ring_size, std::memory_order_release);
      ++number;
    } else if (!last) {
      break;
    } else if (base::now_ns() < give_up) {
      between.wait();
    } else {
      std::uint64_t incomplete = number;
      if (oldest.turn.compare_exchange_strong(incomplete, number + ring_size, std::memory_order_acq_rel))
        ++number;
    }
  }
  to_->flush();
  written_.store(number, std::memory_order_release);
  written_at_ns_.store(base::now_ns(), std::memory_order_relaxed);
  writing_.clear(std::memory_order_release);
  return true;
}

void event_log::finish_all() noexcept {
  long const pid = ::getpid();
  for (event_log* log = first_log.load(std::memory_order_acquire); log != nullptr; log = log->next_log_) {
    if (log->pid_ != pid) continue;
    log->write_through_.store(true, std::memory_order_relaxed);
    std::uint64_t const give_up = base::now_ns() + patience_ns;
    base::wait_until([log, give_up] { return log->write_ready(true) || base::now_ns() >= give_up; });
  }
}

}  // namespace gpumem::stats
