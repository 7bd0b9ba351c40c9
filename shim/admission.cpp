// See admission.hpp.
#include "shim/admission.hpp"

#include "core/driver/table.hpp"

namespace gpumem::shim {

admission::admission(hook which, std::uint64_t bytes) noexcept : bytes_(bytes) {
  CUdevice device = 0;
  if (driver::real.cuCtxGetCurrent(&context_) != CUDA_SUCCESS || context_ == nullptr) return;
  if (driver::real.cuCtxGetDevice(&device) != CUDA_SUCCESS) return;
  device_ = device;
  granted_ = route::admit({.device = device, .bytes = bytes, .hook = static_cast<std::uint16_t>(which)});
}

admission::admission(hook which, std::uint64_t bytes, int device) noexcept : device_(device), bytes_(bytes) {
  granted_ = route::admit({.device = device, .bytes = bytes, .hook = static_cast<std::uint16_t>(which)});
}

admission::~admission() {
  if (granted_ && device_ != no_device) route::withdraw(device_, bytes_);
}

void admission::keep(observed_kind kind, std::uint64_t key, std::uint64_t bytes) noexcept {
  if (device_ == no_device) return;
  if (observed_memory::instance().add(kind, key, {bytes, context_, device_})) keep(bytes);
}

void admission::keep(std::uint64_t bytes) noexcept {
  route::hold(device_, bytes, bytes_);
  device_ = no_device;
}

}  // namespace gpumem::shim
