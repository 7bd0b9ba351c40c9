// A preload library behind the one that is tested: tells the program when a library is closed and its
// addresses are free, before the call that closed it returns. What the program does then another thread might
// do just as well. Any thread.
#include <dlfcn.h>

#include <cstring>

static void (*told)() = nullptr;

extern "C" {

void tell_of_closing(void (*whom)()) {
  told = whom;
}

int dlclose(void* library) {
  int (*real)(void*) = nullptr;
  void* const found = dlsym(RTLD_NEXT, "dlclose");
  std::memcpy(&real, &found, sizeof found);
  int const code = real(library);
  if (told != nullptr) told();
  return code;
}
}
