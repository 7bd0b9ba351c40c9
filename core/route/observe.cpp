// What the shim sees and core must know: captures, synchronisations, streams and contexts that come and go.
// See router.hpp.
#include "core/resource/thread_slots.hpp"
#include "core/route/state.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::route {

namespace {

context_entry* entry_of(CUcontext context) noexcept {
  return present != nullptr ? present->known.find(context) : nullptr;
}

}  // namespace

void start(chain_factory factory, bool synchronize_on_free) noexcept {
  if (present != nullptr) return;
  auto* made = new (std::nothrow) state;
  if (made == nullptr) return;
  made->factory = factory;
  static std::uint64_t starts =
      0;  // what a thread remembers of streams must not outlive the router it was of
  made->streams_changed.store(++starts << 40, std::memory_order_relaxed);
  made->synchronize_on_free = synchronize_on_free;
  present = made;
}

// A capture may begin before any allocation in its context, so this makes the entry.
void capture_begins(CUcontext context, CUstream stream) noexcept {
  context_entry* const entry = present != nullptr ? present->known.find_or_make(context) : nullptr;
  if (entry != nullptr) entry->order.capture_begins(stream);
}

void capture_ended(CUcontext context, CUstream stream) noexcept {
  if (context_entry* const entry = entry_of(context); entry != nullptr) entry->order.capture_ended(stream);
}

std::uint64_t synchronize_begins(CUcontext context) noexcept {
  context_entry* const entry = entry_of(context);
  return entry != nullptr ? entry->order.synchronize_begins() : 0;
}

void synchronize_done(CUcontext context, std::uint64_t mark) noexcept {
  if (mark == 0) return;
  if (context_entry* const entry = entry_of(context); entry != nullptr) {
    entry->order.synchronize_done(static_cast<stream_order::stamp>(mark));
  }
}

void stream_created(CUcontext, CUstream) noexcept {
  if (present != nullptr) present->streams_changed.fetch_add(1, std::memory_order_acq_rel);
}

void stream_destroyed(CUcontext context, CUstream stream) noexcept {
  context_entry* const entry = entry_of(context);
  if (entry == nullptr) return;
  unsigned long long id = 0;
  if (driver::real.cuStreamGetId != nullptr && driver::real.cuStreamGetId(stream, &id) == CUDA_SUCCESS) {
    stream_order::slot const slot = entry->streams.forget(id);
    if (slot != stream_order::no_slot) {
      entry->each_chain([slot](resource::chain& c) { c.stream_gone(slot); });
      entry->streams.recycle(slot);
    }
  }
  present->streams_changed.fetch_add(1, std::memory_order_acq_rel);
}

void context_gone(CUcontext context) noexcept {
  context_entry* const entry = entry_of(context);
  if (entry == nullptr) return;
  entry->forget();
  present->streams_changed.fetch_add(1, std::memory_order_acq_rel);
}

void pool_chosen(int device) noexcept {
  if (present != nullptr && static_cast<std::size_t>(device) < present->own_pool.size()) {
    present->own_pool[static_cast<std::size_t>(device)].store(true, std::memory_order_relaxed);
  }
}

// Other threads of the parent may have held any lock: nothing of the parent's is touched, all of it is left
// behind.
void forked_child() noexcept {
  present = nullptr;
  resource::drop_thread();
  stream_order::active_captures.store(0, std::memory_order_relaxed);
}

}  // namespace gpumem::route
