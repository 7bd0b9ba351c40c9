// What limits (resources `limiting`) mean outside their chains: calls that no chain serves ask them first,
// and the program may be told their size as the device's. Called from hooks on any thread, around driver
// calls of their own; never on the path of a routed block. Nothing here throws.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpumem::driver {
class allocation_failed;
}
namespace gpumem::resource {
struct levels;
}

namespace gpumem::route {

// Makes the budgets of one device, from the configuration; false: not all of them yet, because a size cannot
// be known without a context. Until it is set there are no limits.
using limit_maker = bool (*)(int device);
void use_limits(limit_maker maker) noexcept;

// A call that is not routed is about to take `bytes`: true, and they are taken; or false, the refusal is in
// the report, and the program's answer is CUDA_ERROR_OUT_OF_MEMORY.
struct observed_request {
  int device = 0;
  std::uint64_t bytes = 0;
  std::uint16_t hook = 0;
};
bool admit(observed_request const& wanted) noexcept;
void withdraw(int device, std::uint64_t bytes) noexcept;                      // the call failed
void hold(int device, std::uint64_t bytes, std::uint64_t admitted) noexcept;  // it succeeded, and took these
void let_go(int device, std::uint64_t bytes) noexcept;

// What cuDeviceTotalMem and cuMemGetInfo shall say where the driver says this.
std::uint64_t total_memory(int device, std::uint64_t total) noexcept;
struct memory_info {
  std::uint64_t free = 0;
  std::uint64_t total = 0;
};
memory_info tell_memory(CUcontext context, memory_info const& real) noexcept;

// A request that was refused, for the report.
struct refused_request {
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
  std::uint16_t hook = 0;
  int device = 0;
};
void note_refusal(refused_request const& request, driver::allocation_failed const& why,
                  resource::levels const& now) noexcept;

}  // namespace gpumem::route
