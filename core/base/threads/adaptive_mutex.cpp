// See adaptive_mutex.hpp.
#include "core/base/threads/adaptive_mutex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/threads/processor_hints.hpp"

namespace gpumem::base {

namespace {

constexpr int most_looks = 50;  // not tuned: longer than the mutex is held, shorter than a wake-up

}  // namespace

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

void adaptive_mutex::lock_slowly() noexcept {
  for (int looks = 0; looks < most_looks; ++looks) {
    pause();
    if (state_.load(std::memory_order_relaxed) == free && try_lock()) return;
  }
  int const kept = errno;
  while (state_.exchange(awaited, std::memory_order_acquire) != free)
    syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, awaited, nullptr, nullptr, 0);
  errno = kept;
}

[[gnu::cold]] void adaptive_mutex::wake() noexcept {
  syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace gpumem::base
