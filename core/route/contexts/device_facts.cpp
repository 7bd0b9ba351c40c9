// See device_facts.hpp.
#include "core/route/contexts/device_facts.hpp"

#include <algorithm>

#include "core/driver/question.hpp"
#include "core/driver/table.hpp"

namespace gpumem::route {

namespace {

constinit device_facts asked_ahead{};

void write_uuid(CUuuid const& from, char* at) noexcept {
  constexpr char digits[] = "0123456789abcdef";
  at = std::copy_n("GPU-", 4, at);
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *at++ = '-';
    auto const byte = static_cast<unsigned char>(from.bytes[i]);
    *at++ = digits[byte / 16];
    *at++ = digits[byte % 16];
  }
  *at = '\0';
}

device_facts ask(int device) noexcept {
  auto const& real = driver::real;
  device_facts facts{.device = device};
  CUuuid uuid{};
  real.cuDeviceGetName(facts.name, sizeof facts.name, device);
  real.cuDeviceGetUuid(&uuid, device);
  real.cuDeviceTotalMem_v2(&facts.total, device);
  write_uuid(uuid, facts.uuid);
  return facts;
}

}  // namespace

device_facts facts_of(int device) noexcept {
  return asked_ahead.device == device ? asked_ahead : ask(device);
}

void ask_ahead() noexcept {
  CUcontext context = nullptr;
  CUdevice device = 0;
  if (driver::asked(driver::real.cuCtxGetCurrent, &context) != CUDA_SUCCESS || context == nullptr ||
      driver::asked(driver::real.cuCtxGetDevice, &device) != CUDA_SUCCESS)
    device = 0;
  asked_ahead = ask(device);
}

}  // namespace gpumem::route
