// Names the loaded objects whose CUDA calls bypass this library: opened with RTLD_DEEPBIND, so that their
// look-ups are bound to libc or libcuda, or with dlmopen, in a namespace without preload libraries. Called
// once, at the end of the process, on any thread; reads what the loader has bound; no look-up, no CUDA
// call.
#pragma once

#include <cstddef>

namespace gpumem::shim {

// A list for people, "libplugin.so (RTLD_DEEPBIND), ..."; empty when nothing is seen to pass by.
struct bypass_list {
  char text[256] = "";
};
bypass_list find_bypasses() noexcept;

}  // namespace gpumem::shim
