// See cuda.hpp.
#include "core/upstream/cuda.hpp"

#include "core/stream_order/relaxed_mode.hpp"
#include "core/upstream/call.hpp"

namespace gpumem::upstream {

resource::extent cuda::reserve(resource::demand const& wish) {
  CUdeviceptr address = 0;
  call(home_, node_, wish.bytes, "cuda", [&] { return driver::real.cuMemAlloc_v2(&address, wish.bytes); });
  resource::outlive_ended_contexts(home_, address, wish.bytes);
  resource::note_reserved(home_, wish.bytes);
  return {address, wish.bytes, 0};
}

void cuda::release(resource::extent const& memory, CUstream) noexcept {
  give(home_, node_, memory, [&] { return driver::real.cuMemFree_v2(memory.address); });
  lost(memory);
}

void cuda::lost(resource::extent const& memory) noexcept {
  resource::note_released(home_, memory.bytes);
}

// Host memory is in no device's ledger; the calls line and the node count it.
resource::extent pinned_host::reserve(resource::demand const& wish) {
  void* address = nullptr;
  call(home_, node_, wish.bytes, "pinned_host",
       [&] { return driver::real.cuMemHostAlloc(&address, wish.bytes, wish.flags | flags_); });
  auto const base = reinterpret_cast<std::uint64_t>(address);
  resource::outlive_ended_contexts(home_, base, wish.bytes);
  return {base, wish.bytes, 0};
}

void pinned_host::release(resource::extent const& memory, CUstream) noexcept {
  give(home_, node_, memory,
       [&] { return driver::real.cuMemFreeHost(reinterpret_cast<void*>(memory.address)); });
}

}  // namespace gpumem::upstream
