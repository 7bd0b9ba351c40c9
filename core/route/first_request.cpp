// See first_request.hpp.
#include "core/route/first_request.hpp"

#include <atomic>
#include <mutex>
#include <shared_mutex>

#include "core/base/threads/biased_lock.hpp"
#include "core/base/threads/kept_heap.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/driver/context_id.hpp"
#include "core/driver/question.hpp"
#include "core/resource/pools/cache/thread_slots.hpp"
#include "core/route/contexts/device_facts.hpp"
#include "core/route/router_state.hpp"
#include "core/stats/callers/libraries.hpp"
#include "core/stats/callers/samples.hpp"
#include "core/stats/page/state_page.hpp"
#include "core/stream_order/relaxed_mode.hpp"

// What a first request runs lies between the two (shim/first_call.functions); both are null where no linker
// script put it there.
extern "C" {
[[gnu::weak, gnu::visibility("hidden")]] extern char const gpumem_first_call_begin[];
[[gnu::weak, gnu::visibility("hidden")]] extern char const gpumem_first_call_end[];
}

namespace gpumem::route {

namespace {

// A chain of a pool, its context, and a thread's magazine of it (measured: 41 KiB). Held until a context is
// used (contexts::find_or_make): driver and runtime, which are still setting themselves up, would take it
// else.
constexpr std::size_t heap_bytes = 48 << 10;
// A thread's magazine and a segment alone, where the chain was made ahead; held until the first request.
constexpr std::size_t heap_of_magazine_bytes = 24 << 10;

// Where the functions are is found at their first use (shim/process/older_libc.cpp).
void find_lock_functions() noexcept {
  std::shared_mutex any;
  { std::unique_lock const writes(any); }
  { std::shared_lock const reads(any); }
}

// The chain of device memory and what stands on its context: 17,000 instructions that nothing has run before.
void build_ahead(CUcontext context, CUdevice device) noexcept {
  bool const is_new = !stats::is_registered(device);
  context_entry* const entry = present->known.find_or_make(context);
  if (entry == nullptr) return;
  entry->chain_of(static_cast<std::size_t>(driver::memory_kind::device), present->factory);
  if (is_new) stats::note_registered_ahead(device);
  base::keep_heap(heap_of_magazine_bytes);
}

// Each line of it would come from memory while the request waits: 10 to 27 us of it (H100). All at once they
// take 3.
void read_code_ahead() noexcept {
  constexpr std::size_t line = 64;
  for (char const volatile* at = gpumem_first_call_begin; at < gpumem_first_call_end; at += line)
    static_cast<void>(*at);
}

}  // namespace

void prepare_first_request(space::block_registry& where) noexcept {
  ask_ahead();
  find_lock_functions();
  base::has_barrier();
  resource::attach_thread();  // it is mostly this thread that allocates first
  stats::make_library_pages();
  where.blocks.make_first_pages();
  base::keep_heap(heap_bytes);
}

// A function of the driver takes several times as long when a process calls it first: what is free 21 to 27
// us and 8 to 10 later, the four of them 28 to 35 us and 9 to 11 (H200, driver 580.159). Where no chain is
// made ahead the answers are not kept.
void prepare_first_request_in(CUcontext context) noexcept {
  static constinit std::atomic_flag done;
  if (present == nullptr || stream_order::any_captures() || done.test_and_set(std::memory_order_relaxed))
    return;
  base::uncancelled const held;
  if (stats::prepare_samples()) present->where.sampled_ones.make_first_pages();
  stream_order::relaxed_mode relaxed(true);
  stream_order::scoped_context here(context);
  if (!here.is_there()) return;
  CUdevice device = 0;
  if (driver::asked(driver::real.cuCtxGetDevice, &device) != CUDA_SUCCESS) return;
  if (present->builds_ahead) {
    build_ahead(context, device);
    return read_code_ahead();
  }
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  driver::real.cuMemGetInfo_v2(&free_bytes, &total);
  driver::id_of(context);
  read_code_ahead();
}

}  // namespace gpumem::route
