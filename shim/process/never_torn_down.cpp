// The library's static objects are not destroyed when the process ends: its hooks are called until the last
// moment, by any thread. Of its own none has a destructor to run; this leaves out those of the C++ library
// linked in, which do nothing and would cost each process a registration and a page at its end. Called by the
// C++ runtime and by atexit(), on any thread.
#include <cstdlib>

namespace {

void run(int, void* handler) noexcept {
  reinterpret_cast<void (*)()>(handler)();
}

}  // namespace

// atexit() of libc's static part passes no object.
extern "C" int __cxa_atexit(void (*destructor)(void*), void* object, void*) noexcept {
  if (object != nullptr) return 0;
  return on_exit(&run, reinterpret_cast<void*>(destructor));
}
