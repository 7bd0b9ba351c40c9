// Gives each thread a shard of the state page, and passes an ended thread's shard, counts kept, on to the
// next one. Called once a thread, by whichever hook counts first, and by the C library when a thread ends.
// Never allocates: it runs inside the program's calls. When more than max_shards threads live at once, the
// rest share the last shard, and additions to it may be lost; the report says so.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "core/base/threads/uncancelled.hpp"
#include "core/stats/page/holdings.hpp"
#include "core/stats/page/page_state.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::stats {

constinit thread_local shard* own_shard = nullptr;

namespace {

enum : std::uint32_t { untouched = 0, owned = 1, released = 2 };

constinit shard fallback_shard{};  // counts from before the page, without a file
constinit std::atomic<bool> fallback_used{false};

pthread_key_t thread_end_key;
pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;
constinit std::atomic<bool> thread_end_ready{false};

void release_shard(void* ended) {
  auto* const mine = static_cast<shard*>(ended);
  own_shard = nullptr;
  page* const now = state.active.load(std::memory_order_acquire);
  if (now == nullptr) return;
  auto const index = reinterpret_cast<shard_slot*>(mine) - now->shards;
  if (index < 0 || static_cast<std::size_t>(index) >= max_shards - 1) return;
  std::atomic_ref<std::uint32_t>(now->fixed.shard_state[index]).store(released, std::memory_order_release);
}

void make_key() {
  thread_end_ready.store(pthread_key_create(&thread_end_key, release_shard) == 0);
}

std::size_t claim(page& now) noexcept {
  std::atomic_ref<std::uint32_t> used(now.fixed.head.shards_used);
  std::uint32_t const known = used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < known && i < max_shards - 1; ++i) {
    std::uint32_t expected = released;
    std::atomic_ref<std::uint32_t> slot(now.fixed.shard_state[i]);
    if (slot.load(std::memory_order_relaxed) == released &&
        slot.compare_exchange_strong(expected, owned, std::memory_order_acq_rel)) {
      return i;
    }
  }
  // Space before the number: a reader never looks at a shard that is not safe to touch.
  locked guard;
  std::uint32_t const next = used.load(std::memory_order_relaxed);
  if (next >= max_shards) return max_shards - 1;
  if (!back_part(now, &now.shards[next], sizeof(shard_slot))) {
    std::atomic_ref<std::uint32_t>(now.fixed.head.shards_in_memory).fetch_add(1, std::memory_order_relaxed);
  }
  std::atomic_ref<std::uint32_t>(now.fixed.shard_state[next]).store(owned, std::memory_order_relaxed);
  used.store(next + 1, std::memory_order_release);
  return next;
}

}  // namespace

shard& attach_shard() noexcept {
  page* const now = state.active.load(std::memory_order_acquire);
  if (now == nullptr) {
    fallback_used.store(true, std::memory_order_relaxed);
    return fallback_shard;  // own_shard stays null: the next count asks again
  }
  base::uncancelled const held;
  pthread_once(&thread_end_once, make_key);
  shard& mine = now->shards[claim(*now)].counters;
  set(mine.owner, static_cast<std::uint64_t>(::syscall(SYS_gettid)));
  if (thread_end_ready.load(std::memory_order_relaxed)) pthread_setspecific(thread_end_key, &mine);
  own_shard = &mine;
  return mine;
}

std::uint64_t calls_of_this_thread() noexcept {
  std::uint64_t sum = 0;
  for (hook_counters& each : local().hooks) sum += get(each.calls);
  return sum;
}

void forget_own_shard() noexcept {
  if (own_shard != nullptr && thread_end_ready.load()) pthread_setspecific(thread_end_key, nullptr);
  own_shard = nullptr;
}

void take_over_fallback(shard* target) noexcept {
  if (!fallback_used.exchange(false)) return;
  constexpr std::size_t first = offsetof(shard, devices) / sizeof(std::uint64_t);
  constexpr std::size_t words = sizeof(shard) / sizeof(std::uint64_t);
  auto* const from = reinterpret_cast<std::uint64_t*>(&fallback_shard);
  auto* const to = reinterpret_cast<std::uint64_t*>(target);
  for (std::size_t i = first; i < words; ++i) {
    if (to != nullptr) add(to[i], get(from[i]));
    set(from[i], 0);
  }
}

bool is_one_thread() noexcept {
  page* const now = current_page();
  return now != nullptr && shards_used(*now) == 1;
}

}  // namespace gpumem::stats
