// dlclose: afterwards other code may lie where the unloaded library lay, so what is remembered of its
// addresses must be asked again. Called by the program on any thread. dlclose, unlike dlopen, does not look
// at its caller, so a hook changes nothing for it.
#include <atomic>

#include "core/stats/callers/libraries.hpp"
#include "core/stats/callers/samples.hpp"
#include "shim/symbols/lookup.hpp"

extern "C" int dlclose(void* library) {
  int const code = gpumem::shim::close_unseen(library);
  gpumem::stats::libraries_changed.fetch_add(1, std::memory_order_acq_rel);
  gpumem::stats::look_again_if_changed();
  gpumem::stats::forget_sampled_sites();
  return code;
}
