// A thread that somebody cancelled goes on until it comes to a cancellation point: open, read, write,
// nanosleep. What this library and the driver below it call is none of the program's points, and the
// unwinding could not pass our functions anyway. While one of these lives nothing cancels; what was asked for
// meanwhile acts at the program's own next point. On slow paths of any thread, around whatever may sleep,
// open or write.
#pragma once

#include <pthread.h>

namespace gpumem::base {

class uncancelled {
 public:
  uncancelled() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~uncancelled() { pthread_setcancelstate(before_, nullptr); }
  uncancelled(uncancelled const&) = delete;
  uncancelled& operator=(uncancelled const&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace gpumem::base
