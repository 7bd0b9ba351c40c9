// See system.hpp.
#include "core/upstream/host/system.hpp"

#include <algorithm>
#include <cstdio>

#include "core/base/log/log.hpp"
#include "core/driver/managed_memory.hpp"
#include "core/driver/question.hpp"
#include "core/upstream/call.hpp"

namespace gpumem::upstream {

namespace {

constexpr std::uint64_t large_page = 2ull << 20;  // of the device, and of most hosts

bool reaches_pageable_memory(CUdevice device) noexcept {
  int value = 0;
  return driver::real.cuDeviceGetAttribute != nullptr &&
         driver::asked(driver::real.cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
                       device) == CUDA_SUCCESS &&
         value != 0;
}

}  // namespace

system::system(resource::chain_context const& home, std::size_t node, std::uint64_t headroom,
               host_memory& host)
    : deferred_release_source(home, false), node_(node), headroom_(headroom), host_(host) {
  if (reaches_pageable_memory(home.device)) return;
  throw driver::allocation_failed(
      CUDA_ERROR_NOT_SUPPORTED, "system",
      "the device does not reach pageable memory (it has neither HMM nor ATS); use managed instead");
}

resource::extent system::reserve(resource::allocation_request const& request) {
  release_what_is_done();
  stats::memory_move const move;
  std::uint64_t const page = request.bytes < large_page ? host_memory::page() : large_page;
  std::uint64_t const bytes = (request.bytes + page - 1) / page * page;
  take_from_host(bytes);
  std::uint64_t address = 0;
  try {
    call(home_, node_, bytes, "system", [&] {
      address = host_.map(bytes, page);
      if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
      place(address, bytes);
      return CUDA_SUCCESS;
    });
  } catch (driver::allocation_failed const&) {
    held_.fetch_sub(bytes, std::memory_order_relaxed);
    throw;
  }
  resource::wait_for_address_reuse(home_, address, bytes);
  resource::note_reserved(home_, address, bytes, resource::lies::anywhere);
  return {address, bytes, 0};
}

// The kernel hands out pages when they are touched, and then kills somebody if there are none: what is asked
// for must be there. It knows nothing of what we hold and nobody has touched, hence the second bound.
void system::take_from_host(std::uint64_t bytes) {
  host_memory::amount const has = host_.measure();
  std::uint64_t const held = held_.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes <= has.available && held + bytes <= has.total) return;
  held_.fetch_sub(bytes, std::memory_order_relaxed);
  stats::node_counters& counters = stats::local().nodes[node_];
  stats::add(counters.requests, 1);
  stats::add(counters.failed, 1);
  char text[220];
  std::snprintf(text, sizeof text, "%s asked for, the host has %s available of %s, %s are held here",
                base::print_bytes(bytes).view().data(), base::print_bytes(has.available).view().data(),
                base::print_bytes(has.total).view().data(), base::print_bytes(held).view().data());
  throw driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, "system", text, driver::refused_by::host_memory);
}

// What fits on the device is to be there, the rest on the host. Advice that is refused is said once, and the
// driver decides alone.
void system::place(std::uint64_t address, std::uint64_t bytes) noexcept {
  if (headroom_ == 0) return;
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  CUresult code = driver::real.cuMemGetInfo_v2(&free_bytes, &total);
  if (code == CUDA_SUCCESS) {
    std::uint64_t const fits =
        free_bytes > headroom_ ? (free_bytes - headroom_) / large_page * large_page : 0;
    std::uint64_t const here = std::min(bytes, fits);
    if (here > 0) code = driver::advise(address, here, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, home_.device);
    if (here < bytes && code == CUDA_SUCCESS)
      code =
          driver::advise(address + here, bytes - here, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU);
  }
  if (code == CUDA_SUCCESS || told_.exchange(true, std::memory_order_relaxed)) return;
  char text[100];
  std::snprintf(text, sizeof text, "system: device %d refuses the advice of headroom (code %d)", home_.device,
                static_cast<int>(code));
  base::log_line(base::log_level::warn, text);
}

void system::lost(resource::extent const& memory) noexcept {
  stats::memory_move const move;
  segment_leaving(home_.device, node_, memory, resource::lies::anywhere).gone();
  host_.unmap(memory.address, memory.bytes);
  held_.fetch_sub(memory.bytes, std::memory_order_relaxed);
}

}  // namespace gpumem::upstream
