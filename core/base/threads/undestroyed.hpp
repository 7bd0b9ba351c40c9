// One object of a type for the whole process, never destroyed: calls arrive until the last of the program's
// own destructors has run. Held in place, so that a forked child can start with a fresh one: a lock in the
// parent's may have been held by a thread that the child does not have.
#pragma once

#include <new>

namespace gpumem::base {

template <typename T>
class undestroyed {
 public:
  static T& get() noexcept {
    static T& only = *new (storage_) T;
    return only;
  }
  // Only in the single thread of a forked child. What the old object owned is left behind.
  static void renew() noexcept { new (storage_) T; }

 private:
  alignas(T) inline static unsigned char storage_[sizeof(T)];
};

}  // namespace gpumem::base
