// cuGetProcAddress in both forms, over the one list of functions.
// Any thread, also before cuInit; the runtime's first call has an empty name and version 0.
// The address given is always the exported function's own, so that it equals what dlsym gives.
#include <cstring>
#include <string_view>

#include "entry.hpp"

using namespace simulated;

namespace {

struct function {
  char const* base;  // the name asked for
  int since;         // first CUDA version of this ABI
  void* plain;
  void* per_thread;  // null if the function knows no default stream
};

#define SIMULATED_FUNCTION(base, exported, since) {#base, since, reinterpret_cast<void*>(&exported), nullptr},
#define SIMULATED_STREAM_FUNCTION(base, exported, variant, since) \
  {#base, since, reinterpret_cast<void*>(&exported), reinterpret_cast<void*>(&variant)},
function const functions[] = {
#include "functions.def"
};
#undef SIMULATED_FUNCTION
#undef SIMULATED_STREAM_FUNCTION

CUresult look_up(machine& m, char const* name, void** out, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult* status) {
  if (name == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (flags > (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = nullptr;
  function const* best = nullptr;
  bool newer = false;
  for (function const& each : functions) {
    if (std::strcmp(each.base, name) != 0 || each.since > m.version()) continue;
    if (each.since > version) {
      newer = true;
    } else if (best == nullptr || each.since > best->since) {
      best = &each;
    }
  }
  if (best != nullptr) {
    bool const per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    *out = per_thread && best->per_thread != nullptr ? best->per_thread : best->plain;
  }
  if (status != nullptr) {
    *status = best != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : newer         ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                              : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API cuGetProcAddress(char const* name, void** out, int version, cuuint64_t flags) {
  SIMULATED_CALL(any_time);
  return look_up(m, name, out, version, flags, nullptr);
}

SIMULATED_API cuGetProcAddress_v2(char const* name, void** out, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status) {
  SIMULATED_CALL(any_time);
  return look_up(m, name, out, version, flags, status);
}
