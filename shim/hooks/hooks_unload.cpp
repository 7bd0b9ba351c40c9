// dlclose: other code may lie where the unloaded library lay, and call, before dlclose itself has returned,
// so what is remembered of its addresses goes before, and what its own code asks for at its end is not
// remembered. Called by the program on any thread. dlclose, unlike dlopen, does not look at its caller, so a
// hook changes nothing for it.
#include "core/stats/callers/libraries.hpp"
#include "core/stats/callers/samples.hpp"
#include "shim/symbols/lookup.hpp"

extern "C" int dlclose(void* library) {
  int code = 0;
  {
    gpumem::stats::library_closing const closing;
    code = gpumem::shim::close_unseen(library);
  }
  gpumem::stats::look_again_if_changed();
  gpumem::stats::forget_sampled_sites();
  return code;
}
