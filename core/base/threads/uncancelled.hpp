// A guard: no pthread_cancel acts while it lives. open, read, write and nanosleep are cancellation points,
// and those of this library and of the driver below it are not the program's: unwinding could not pass our
// functions. A cancellation that was asked for meanwhile acts at the program's own next point. Any thread,
// slow paths, around whatever may sleep, open or write.
#pragma once

#include <pthread.h>

namespace gpumem::base {

class uncancelled {
 public:
  uncancelled() noexcept : uncancelled(true) {}
  // `holds`: false where nothing within is such a point; then it costs a look.
  explicit uncancelled(bool holds) noexcept : holds_(holds) {
    if (holds_) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
  }
  ~uncancelled() {
    if (holds_) pthread_setcancelstate(before_, nullptr);
  }
  uncancelled(uncancelled const&) = delete;
  uncancelled& operator=(uncancelled const&) = delete;

 private:
  bool const holds_;
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace gpumem::base
