// See managed.hpp.
#include "core/upstream/managed.hpp"

#include <cstdio>

#include "core/base/log/log.hpp"
#include "core/driver/managed_memory.hpp"
#include "core/upstream/call.hpp"
#include "core/upstream/known_refusals.hpp"

namespace gpumem::upstream {

resource::extent managed::reserve(resource::allocation_request const& request) {
  release_what_is_done();
  stats::memory_move const move;
  note_driver_keeps_memory();
  CUdeviceptr address = 0;
  unsigned const flags = request.flags != 0 ? request.flags : static_cast<unsigned>(CU_MEM_ATTACH_GLOBAL);
  std::uint32_t life = 0;
  allocate_surely(home_, node_, "managed", address, request, [&] {
    call(home_, node_, request.bytes, "managed", [&] {
      life = home_.epochs.life();
      CUresult const code = driver::real.cuMemAllocManaged(&address, request.bytes, flags);
      if (code == CUDA_SUCCESS) take_in(home_, request, life, address);
      return code;
    });
  });
  advise(address, request.bytes);
  resource::note_reserved(home_, address, request.bytes, resource::lies::anywhere);
  return {.address = address, .bytes = request.bytes, .life = life};
}

void managed::advise(CUdeviceptr address, std::uint64_t bytes) noexcept {
  if (options_.preferred_location == location::any && !options_.read_mostly) return;
  CUresult code = CUDA_SUCCESS;
  {
    stream_order::relaxed_mode relaxed(true);
    auto const here = home_.epochs.enter();
    if (!here.is_there()) return;
    auto const say = [&](CUmem_advise what, CUdevice device) {
      CUresult const answer = driver::advise(address, bytes, what, device);
      if (answer != CUDA_SUCCESS) code = answer;
    };
    if (options_.preferred_location != location::any) {
      bool const host = options_.preferred_location == location::host;
      say(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host ? CU_DEVICE_CPU : home_.device);
    }
    if (options_.read_mostly) say(CU_MEM_ADVISE_SET_READ_MOSTLY, home_.device);
  }
  if (code == CUDA_SUCCESS || told_.exchange(true, std::memory_order_relaxed)) return;
  char text[120];
  std::snprintf(text, sizeof text,
                "managed: device %d refuses the advice of preferred_location or read_mostly (code %d)",
                home_.device, static_cast<int>(code));
  base::log_line(base::log_level::warn, text);
}

bool managed::give_away(resource::extent const& memory, bool) noexcept {
  return give_back(home_, node_, memory, resource::lies::anywhere,
                   [&] { return driver::real.cuMemFree_v2(memory.address); });
}

void managed::lost(resource::extent const& memory) noexcept {
  segment_leaving(home_.device, node_, memory, resource::lies::anywhere).gone();
}

}  // namespace gpumem::upstream
