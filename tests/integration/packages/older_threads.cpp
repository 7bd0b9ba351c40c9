// What the simulated driver needs of libpthread beside what shim/process/older_libc.cpp brings: where a
// thread may be cancelled, as the real driver has such places, and what its standard library takes. Called by
// the driver on any thread. Only in the driver that is taken to older systems to try packages there, which is
// linked to libpthread; never in gpumem.
#include <pthread.h>

#include "shim/symbols/objects/elf_object.hpp"

namespace {

template <typename Function>
Function* moved(char const* name) noexcept {
  return reinterpret_cast<Function*>(gpumem::shim::elf_object::first_function(name));
}

}  // namespace

#pragma GCC visibility push(hidden)
extern "C" {
void pthread_testcancel() {
  moved<void()>("pthread_testcancel")();
}
void* pthread_getspecific(pthread_key_t key) noexcept {
  return moved<void*(pthread_key_t)>("pthread_getspecific")(key);
}
int pthread_key_delete(pthread_key_t key) noexcept {
  return moved<int(pthread_key_t)>("pthread_key_delete")(key);
}
}
#pragma GCC visibility pop
