// See prefetch.hpp.
#include "core/resource/adaptors/prefetch.hpp"

#include <cstdio>

#include "core/base/log/log.hpp"
#include "core/driver/managed_memory.hpp"
#include "core/stats/page/state_page.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::resource {

CUstream prefetcher::own_stream() noexcept {
  base::lock_guard lock(mutex_);
  if (stream_ == nullptr) driver::real.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
  return stream_;
}

void prefetcher::move(std::uint64_t address, std::uint64_t bytes, CUstream ordered) noexcept {
  if (home_.epochs.capturing()) return;
  stats::add(stats::local().nodes[node_].upstream, 1);
  CUresult code = CUDA_ERROR_UNKNOWN;
  {
    stream_order::relaxed_mode relaxed(true);
    auto const here = home_.epochs.enter();
    if (!here.is_there()) return;
    CUstream const on = ordered != nullptr ? ordered : own_stream();
    if (on != nullptr) code = driver::prefetch(address, bytes, device_, on);
  }
  // The request is served all the same: none of it has failed.
  if (code == CUDA_SUCCESS || told_.exchange(true, std::memory_order_relaxed)) return;
  char text[120];
  std::snprintf(text, sizeof text, "prefetch: the driver moves nothing to device %d (code %d)", device_,
                static_cast<int>(code));
  base::log_line(base::log_level::warn, text);
}

void prefetcher::forget() noexcept {
  base::lock_guard lock(mutex_);
  stream_ = nullptr;
}

space::handle prefetch::serve(allocation_request const& request) {
  space::handle const h = below_.allocate(request);
  mover_.move(blocks()[h].begin(), request.bytes,
              request.slot != stream_order::no_slot ? request.stream : nullptr);
  return h;
}

extent prefetch_source::serve(allocation_request const& request) {
  extent const memory = below_.reserve(request);
  mover_.move(memory.address, memory.bytes, request.slot != stream_order::no_slot ? request.stream : nullptr);
  return memory;
}

}  // namespace gpumem::resource
