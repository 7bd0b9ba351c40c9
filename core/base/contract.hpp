// Contracts between functions of the library: what a caller must have done, said in code. On in builds with
// GPUMEM_CONTRACTS (the sanitizer builds), where a broken one ends the process with its text; nothing at all
// in others. Async-signal-safe, any thread.
#pragma once

#if defined(GPUMEM_CONTRACTS)
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#endif

namespace gpumem::base {

#if defined(GPUMEM_CONTRACTS)
[[noreturn]] inline void contract_broken(char const* text) noexcept {
  static constexpr char begin[] = "gpumem: contract broken: ";
  (void)!::write(STDERR_FILENO, begin, sizeof begin - 1);
  (void)!::write(STDERR_FILENO, text, std::strlen(text));
  (void)!::write(STDERR_FILENO, "\n", 1);
  std::abort();
}
#define GPUMEM_EXPECTS(condition) \
  ((condition) ? void() : ::gpumem::base::contract_broken(__FILE__ ": " #condition))

// Which thread holds a lock.
class contract_owner {
 public:
  void take() noexcept { owner_.store(&mark_, std::memory_order_relaxed); }
  void leave() noexcept { owner_.store(nullptr, std::memory_order_relaxed); }
  void expect_mine() const noexcept {
    if (owner_.load(std::memory_order_relaxed) != &mark_)
      contract_broken("a function that needs its object's lock was called without it");
  }

 private:
  static inline thread_local char mark_ = 0;
  std::atomic<char*> owner_{nullptr};
};
#else
#define GPUMEM_EXPECTS(condition) ((void)0)

class contract_owner {
 public:
  void take() const noexcept {}
  void leave() const noexcept {}
  void expect_mine() const noexcept {}
};
#endif

}  // namespace gpumem::base
