// What limits (resources `limiting`) mean outside their chains: calls that no chain serves ask them first,
// and the program may be told a limit as the device's size. Called from hooks on any thread, around driver
// calls; never for a block that a chain serves. Nothing here throws.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "core/driver/request.hpp"
#include "core/stats/callers/samples.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::driver {
class allocation_failed;
}
namespace gpumem::resource {
struct idle_usage;
}

namespace gpumem::route {

// Makes the budgets of one device, from the configuration; false: not all of them yet, because a size cannot
// be known without a context. Until it is set there are no limits.
using limit_maker = bool (*)(int device);
void use_limits(limit_maker maker) noexcept;

// A call that is not routed is about to take `bytes`: CUDA_SUCCESS, and they are taken; or what the program
// is to hear: CUDA_ERROR_OUT_OF_MEMORY, which is in the report, unless a capture forbids the call, for which
// the driver refuses first.
struct observed_request {
  int device = 0;
  std::uint64_t bytes = 0;
  std::uint16_t hook = 0;
  bool captures_forbid = true;
  bool in_current_context = false;  // the driver serves it only there
};
CUresult admit(observed_request const& wanted) noexcept;
// False: it has no limit, nor will have one, so that nobody asks what was taken of it.
bool may_have_limits(int device) noexcept;
void withdraw(int device, std::uint64_t bytes) noexcept;  // the call failed

// Memory that is seen and not routed, where it is. `movable`: managed, which need not lie on the device.
struct observed_bytes {
  int device = 0;
  std::uint64_t bytes = 0;
  bool movable = false;
  std::uint32_t library = 0;  // stats::library_id of who asked
  stats::sample sampled = {};
};
void hold(observed_bytes const& held, std::uint64_t admitted) noexcept;  // it succeeded, and took these
// A call that gives them back: off the ledger before it, for then they may be somebody else's; off the limits
// after it, for until then they are not free. Or on the ledger again, where it failed.
void leaves(observed_bytes const& held) noexcept;
void has_left(observed_bytes const& held) noexcept;
void stays(observed_bytes const& held) noexcept;

// What cuDeviceTotalMem and cuMemGetInfo shall say where the driver says this.
std::uint64_t total_memory(int device, std::uint64_t total) noexcept;
// Bytes, as cuMemGetInfo has them.
struct memory_info {
  std::uint64_t free = 0;
  std::uint64_t total = 0;
};
// Of the device of `context`: idle memory is free, and no more than a limit leaves.
memory_info tell_memory(CUcontext context, memory_info const& real) noexcept;

// A request that was refused, for the report.
struct refused_request {
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
  std::uint16_t hook = 0;
  int device = 0;
  void const* caller = nullptr;                            // the program's code; null: not known
  driver::memory_kind kind = driver::memory_kind::device;  // host memory is none of the device's refusals
};
void note_refusal(refused_request const& request, driver::allocation_failed const& why,
                  resource::idle_usage const& now, stats::free_blocks const& free) noexcept;
// A call that no chain serves, and that the driver refused for lack of memory.
void refused_by_driver(refused_request const& request) noexcept;
// Whether the report will keep the next refusal: a program may be refused all the time.
inline bool is_refusal_kept() noexcept {
  return stats::failures_so_far() < stats::max_failures;
}

}  // namespace gpumem::route
