// The functions that core requires of a driver and these tests never look at: present, and failing when
// called. The driver of shape ANCIENT lacks them; then the preload library must step aside.
#ifndef ANCIENT
#define GPUMEM_DRIVER(name)                                   \
  __attribute__((weak)) int stand_in_##name() __asm__(#name); \
  __attribute__((weak)) int stand_in_##name() {               \
    return 801;                                               \
  }
#define GPUMEM_DRIVER_OPTIONAL(name, version)
#define GPUMEM_DRIVER_FORMER(entry, symbol, ...)
#include "core/driver/functions.def"
#endif
