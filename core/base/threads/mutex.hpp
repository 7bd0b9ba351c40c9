// A mutex that clang's thread-safety analysis follows (scripts/thread_safety.sh): libstdc++'s own has no
// annotations. GPUMEM_GUARDED_BY names the mutex of a field, GPUMEM_REQUIRES that of a function; gcc reads
// neither. Builds with GPUMEM_CONTRACTS, which are the sanitizers', also check at run time that the caller
// holds it. Any thread.
#pragma once

#include <mutex>

#include "core/base/contract.hpp"
#include "core/base/threads/interleave.hpp"

#if defined(__clang__)
#define GPUMEM_ANNOTATE(what) __attribute__((what))
#else
#define GPUMEM_ANNOTATE(what)
#endif
#define GPUMEM_GUARDED_BY(mutex) GPUMEM_ANNOTATE(guarded_by(mutex))
#define GPUMEM_REQUIRES(mutex) GPUMEM_ANNOTATE(requires_capability(mutex))

namespace gpumem::base {

class GPUMEM_ANNOTATE(capability("mutex")) mutex {
 public:
  void lock() noexcept GPUMEM_ANNOTATE(acquire_capability()) {
    interleave();
    mutex_.lock();
    owner_.take();
  }
  bool try_lock() noexcept GPUMEM_ANNOTATE(try_acquire_capability(true)) {
    if (!mutex_.try_lock()) return false;
    owner_.take();
    return true;
  }
  void unlock() noexcept GPUMEM_ANNOTATE(release_capability()) {
    owner_.leave();
    interleave();
    mutex_.unlock();
  }
  // A contract: the calling thread holds it.
  void expect_held() const noexcept GPUMEM_ANNOTATE(assert_capability(this)) { owner_.expect_mine(); }

 private:
  std::mutex mutex_;
  [[no_unique_address]] contract_owner owner_;
};

class GPUMEM_ANNOTATE(scoped_lockable) lock_guard {
 public:
  explicit lock_guard(mutex& held) noexcept GPUMEM_ANNOTATE(acquire_capability(held)) : held_(held) {
    held_.lock();
  }
  ~lock_guard() GPUMEM_ANNOTATE(release_capability()) { held_.unlock(); }
  lock_guard(lock_guard const&) = delete;

 private:
  mutex& held_;
};

}  // namespace gpumem::base
