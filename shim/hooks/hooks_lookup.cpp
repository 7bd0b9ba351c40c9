// cuGetProcAddress in its two forms. Called by the CUDA runtime some 440 times at its start, and by
// programs. The driver answers first, with the same arguments; only the address of a hooked function is
// exchanged for the hook's. An absent function stays absent and the status is never changed, so unknown
// names and future drivers behave as without us.
#include "shim/symbols/lookup.hpp"
#include "shim/symbols/real_symbols.hpp"

using gpumem::shim::hook_for_family;

namespace {

void exchange(CUresult code, char const* name, void** function) noexcept {
  if (code != CUDA_SUCCESS || name == nullptr || function == nullptr || *function == nullptr) return;
  *function = hook_for_family(name, *function);
}

}  // namespace

extern "C" {

CUresult cuGetProcAddress(char const* name, void** function, int version, cuuint64_t flags) {
  CUresult const code = GPUMEM_REAL(cuGetProcAddress)(name, function, version, flags);
  exchange(code, name, function);
  return code;
}

CUresult cuGetProcAddress_v2(char const* name, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (name != nullptr && *name == '\0')
    gpumem::shim::runtimes_started.fetch_add(1, std::memory_order_relaxed);
  CUresult const code = GPUMEM_REAL(cuGetProcAddress_v2)(name, function, version, flags, status);
  exchange(code, name, function);
  return code;
}
}
