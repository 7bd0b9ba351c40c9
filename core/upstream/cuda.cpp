// See cuda.hpp.
#include "core/upstream/cuda.hpp"

#include "core/base/mutant.hpp"
#include "core/driver/question.hpp"
#include "core/stream_order/relaxed_mode.hpp"
#include "core/upstream/call.hpp"
#include "core/upstream/known_refusals.hpp"

namespace gpumem::upstream {

resource::extent cuda::reserve(resource::allocation_request const& request) {
  release_what_is_done();
  stats::memory_move const move;
  CUdeviceptr address = 0;
  std::uint32_t life = 0;
  allocate_surely(home_, node_, "cuda", address, request, [&] {
    call(home_, node_, request.bytes, "cuda", [&] {
      if (known_refusals::is_certain(home_.device_slot, request.bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
      life = home_.epochs.life();  // which cannot move on meanwhile: the context is entered
      CUresult const code = driver::real.cuMemAlloc_v2(&address, request.bytes);
      if (code == CUDA_ERROR_OUT_OF_MEMORY) known_refusals::note(home_.device_slot, request.bytes);
      if (code == CUDA_SUCCESS) [[likely]]
        take_in(home_, request, life, address);
      return code;
    });
  });
  resource::note_reserved(home_, address, request.bytes);
  return {.address = address, .bytes = request.bytes, .life = life};
}

std::optional<std::uint64_t> cuda::free_at_driver() noexcept {
  std::optional<std::uint64_t> free;
  in_context(home_, [&] {
    free = known_refusals::all_free();
    return CUDA_SUCCESS;
  });
  return free;
}

bool cuda::is_hopeless(std::uint64_t bytes, std::uint64_t back) noexcept {
  bool hopeless = false;
  in_context(home_, [&] {
    hopeless = known_refusals::is_hopeless(home_.device_slot, bytes, back);
    return CUDA_SUCCESS;
  });
  return hopeless;
}

bool cuda::takes_back_at_once() const noexcept {
  return !refuses_.load(std::memory_order_relaxed) && driver::real.cuMemFreeAsync != nullptr &&
         driver::real.cuStreamCreate != nullptr && driver::real.cuStreamSynchronize != nullptr &&
         driver::real.cuCtxRecordEvent != nullptr;
}

// cuMemFree waits for all work of the device, and launches of other threads wait for cuMemFree: for ever
// where a kernel waits for the host. Freed in the order of a stream that has no other work, plain memory is
// the device's again once that stream alone is synchronised ("Stream Ordered Memory Allocator" in the CUDA
// C++ Programming Guide; tests/gpu/freed_in_order.cu), also beside more streams at work than the device has
// queues (tests/gpu/freed_beside_many_streams.cu). The first such call of a process takes the driver 10 ms,
// so that it is not made where there is nothing to wait for.
bool cuda::free_in_order(CUdeviceptr address) noexcept {
  base::lock_guard const held(mutex_);
  CUresult code = CUDA_SUCCESS;
  if (own_ == nullptr) code = driver::real.cuStreamCreate(&own_, CU_STREAM_NON_BLOCKING);
  if (code != CUDA_SUCCESS) own_ = nullptr;
  if (code == CUDA_SUCCESS) code = driver::real.cuMemFreeAsync(address, own_);
  if (code != CUDA_SUCCESS) {
    // cuMemFree waits now, but no request counts on this again, unless it could not just then. Host functions
    // may not free by either.
    bool const cannot = code != CUDA_ERROR_NOT_PERMITTED && !driver::is_of_the_moment(code);
    if (cannot || GPUMEM_MUTANT(asked_once)) refuses_.store(true, std::memory_order_relaxed);
    return false;
  }
  driver::real.cuStreamSynchronize(own_);
  return true;
}

void cuda::forget() noexcept {
  deferred_release_source::forget();
  base::lock_guard const held(mutex_);
  own_ = nullptr;  // it went with the context
}

// Where other threads may launch meanwhile, what a call that must not wait finds idle need not stay so.
bool cuda::goes_in_order(bool may_wait) noexcept {
  if (!takes_back_at_once() || GPUMEM_MUTANT(requests_free_at_once)) return false;
  return (!may_wait && !stats::is_one_thread()) || has_work();
}

bool cuda::give_away(resource::extent const& memory, bool may_wait) noexcept {
  bool const done = memory.done || GPUMEM_MUTANT(freed_beside_work);
  return give_back(home_, node_, memory, resource::lies::on_device, [&] {
    bool const in_order = done && goes_in_order(may_wait);
    if (in_order && free_in_order(memory.address)) return CUDA_SUCCESS;
    // The driver may have refused just now: then the next call that may wait gives it back.
    if (!may_wait && (in_order || !takes_back_at_once()) && has_work()) return CUDA_ERROR_NOT_SUPPORTED;
    return driver::real.cuMemFree_v2(memory.address);
  });
}

void cuda::lost(resource::extent const& memory) noexcept {
  segment_leaving(home_.device, node_, memory).gone();
}

// Host memory is in no device's ledger; the calls line and the node count it.
resource::extent pinned_host::reserve(resource::allocation_request const& request) {
  void* address = nullptr;
  std::uint32_t life = 0;
  call(home_, node_, request.bytes, "pinned_host", [&] {
    life = home_.epochs.life();
    return driver::real.cuMemHostAlloc(&address, request.bytes, request.flags | flags_);
  });
  auto const base = reinterpret_cast<std::uint64_t>(address);
  resource::wait_for_address_reuse(home_, base, request.bytes);
  return {.address = base, .bytes = request.bytes, .life = life};
}

bool pinned_host::give_away(resource::extent const& memory) noexcept {
  auto* const address = reinterpret_cast<void*>(memory.address);
  CUresult const code = in_context(home_, [&] {
    return went_with_context(home_, memory.life) ? CUDA_SUCCESS : driver::real.cuMemFreeHost(address);
  });
  if (code != CUDA_SUCCESS) return false;
  lost(memory);
  return true;
}

void pinned_host::release(resource::extent const& memory, resource::release_order const&) noexcept {
  retry();
  refused_.release(
      memory, [this](auto const& m) { return give_away(m); }, [this](auto const& m) { lost(m); });
}

void pinned_host::retry() noexcept {
  refused_.retry([this](auto const& m) { return give_away(m); }, [this](auto const& m) { lost(m); });
}

std::uint64_t pinned_host::trim(resource::give_back_scope) noexcept {
  retry();
  return 0;
}

void pinned_host::forget() noexcept {
  refused_.forget([this](auto const& m) { lost(m); });
}

void pinned_host::lost(resource::extent const& memory) noexcept {
  stats::add(stats::local().nodes[node_].bytes_out, memory.bytes);
}

}  // namespace gpumem::upstream
