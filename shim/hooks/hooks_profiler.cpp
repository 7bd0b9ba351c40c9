// The functions of libcupti by which a profiler asks to see the calls of the CUDA runtime: from the first
// such request on, all runtime calls go through the runtime. PyTorch always loads libcupti, and asks when
// it profiles. Any thread; each call is passed on to the libcupti of its caller. Arguments and codes are
// CUPTI's, whose headers are not needed.
#include <cstdint>

#include "shim/symbols/runtime_calls.hpp"
#include "shim/symbols/runtime_symbols.hpp"

using namespace gpumem::shim;

namespace {

constexpr int not_initialized = 15;  // CUPTI_ERROR_NOT_INITIALIZED: there is no libcupti behind us

// CUpti_CallbackDomain: calls of the driver and of the runtime. The others tell of contexts, of waits, of
// NVTX.
constexpr bool sees_calls(int free_list_id) noexcept {
  return free_list_id == 1 || free_list_id == 2;
}

template <typename... Arguments>
int hand_on(hook which, bool wants_calls, void const* caller, Arguments... arguments) noexcept {
  if (wants_calls) leave_all_calls_to_runtime();
  auto const real = reinterpret_cast<int (*)(Arguments...)>(definition_for(which, caller));
  return real != nullptr ? real(arguments...) : not_initialized;
}

}  // namespace

#define GPUMEM_CALLER __builtin_return_address(0)

extern "C" {

int cuptiActivityEnable(int kind) {
  return hand_on(hook::cuptiActivityEnable, true, GPUMEM_CALLER, kind);
}

int cuptiActivityEnableContext(void* context, int kind) {
  return hand_on(hook::cuptiActivityEnableContext, true, GPUMEM_CALLER, context, kind);
}

int cuptiActivityEnableAndDump(int kind) {
  return hand_on(hook::cuptiActivityEnableAndDump, true, GPUMEM_CALLER, kind);
}

int cuptiActivityEnableRuntimeApi(std::uint32_t call, std::uint8_t enable) {
  return hand_on(hook::cuptiActivityEnableRuntimeApi, enable != 0, GPUMEM_CALLER, call, enable);
}

int cuptiActivityEnableDriverApi(std::uint32_t call, std::uint8_t enable) {
  return hand_on(hook::cuptiActivityEnableDriverApi, enable != 0, GPUMEM_CALLER, call, enable);
}

int cuptiEnableCallback(std::uint32_t enable, void* subscriber, int free_list_id, std::uint32_t call) {
  return hand_on(hook::cuptiEnableCallback, enable != 0 && sees_calls(free_list_id), GPUMEM_CALLER, enable,
                 subscriber, free_list_id, call);
}

int cuptiEnableDomain(std::uint32_t enable, void* subscriber, int free_list_id) {
  return hand_on(hook::cuptiEnableDomain, enable != 0 && sees_calls(free_list_id), GPUMEM_CALLER, enable,
                 subscriber, free_list_id);
}

int cuptiEnableAllDomains(std::uint32_t enable, void* subscriber) {
  return hand_on(hook::cuptiEnableAllDomains, enable != 0, GPUMEM_CALLER, enable, subscriber);
}
}
