// What the shim sees and core must know: captures, synchronisations, streams and contexts that come and go.
// See router.hpp.
#include "core/base/mutant.hpp"
#include "core/resource/budget.hpp"
#include "core/resource/thread_slots.hpp"
#include "core/route/state.hpp"
#include "core/stream_order/one_stream.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::route {

namespace {

context_entry* known_entry(CUcontext context) noexcept {
  return present != nullptr ? present->known.find(context) : nullptr;
}

// The device of a context that need not be known here; -1 where the driver does not say.
int device_of(CUcontext context) noexcept {
  stream_order::current_context here(context);
  CUdevice device = -1;
  return driver::real.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
}

void tell_chains_of_peers() noexcept {
  present->known.each(
      [](context_entry& entry) { entry.each_chain([](resource::chain& c) { c.peers_changed(); }); });
}

}  // namespace

void start(chain_factory factory, free_mode free, rule_set* rules) noexcept {
  if (present != nullptr) return;
  auto* made = new (std::nothrow) state;
  if (made == nullptr) return;
  made->factory = factory;
  static std::uint64_t starts =
      0;  // what a thread remembers of streams must not outlive the router it was of
  made->streams_changed.store(++starts << 40, std::memory_order_relaxed);
  made->synchronize_on_free = free == free_mode::synchronize;
  stream_order::one_stream.store(free == free_mode::one_stream, std::memory_order_release);
  made->rules = rules;
  made->known.use(rules);
  present = made;
}

// A capture may begin before any allocation in its context, so this makes the entry.
void capture_begins(CUcontext context, CUstream stream) noexcept {
  context_entry* const entry = present != nullptr ? present->known.find_or_make(context) : nullptr;
  if (entry == nullptr) return;
  entry->order.capture_begins(stream);
  present->known.each([entry](context_entry& e) {
    if (&e != entry) e.order.capture_began_elsewhere();
  });
}

void context_end_begins(CUcontext context) noexcept {
  if (context_entry* const entry = known_entry(context); entry != nullptr) entry->order.end_begins();
}

void context_end_failed(CUcontext context) noexcept {
  if (context_entry* const entry = known_entry(context); entry != nullptr) entry->order.end_failed();
}

void capture_ended(CUcontext context, CUstream stream) noexcept {
  if (context_entry* const entry = known_entry(context); entry != nullptr) entry->order.capture_ended(stream);
}

// A green context's synchronisation waits for its own work only: it completes no epoch.
std::uint64_t synchronize_begins(CUcontext context) noexcept {
  if (present != nullptr && present->known.find_green(context) != nullptr) return 0;
  context_entry* const entry = known_entry(context);
  return entry != nullptr ? entry->order.synchronize_begins() : 0;
}

void synchronize_done(CUcontext context, std::uint64_t mark) noexcept {
  if (mark == 0) return;
  if (context_entry* const entry = known_entry(context); entry != nullptr) {
    entry->order.synchronize_done(static_cast<stream_order::stamp>(mark));
    entry->each_chain([](resource::chain& c) { c.synchronized(); });
  }
}

// Nothing runs on it yet: the program learns of the stream when this returns.
void stream_created(CUcontext, CUstream) noexcept {
  if (present == nullptr) return;
  present->known.end_one_stream("a stream was created");
  present->streams_changed.fetch_add(1, std::memory_order_acq_rel);
}

void stream_destroyed(CUcontext context, CUstream stream) noexcept {
  context_entry* const entry = known_entry(context);
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

void green_context_made(CUcontext context, CUcontext primary) noexcept {
  if (present == nullptr || context == primary) return;
  present->known.add_green(context, primary);
  present->streams_changed.fetch_add(1, std::memory_order_acq_rel);
}

void context_gone(CUcontext context) noexcept {
  if (present == nullptr) return;
  if (present->access.forget(context)) tell_chains_of_peers();
  if (green_context* const green = present->known.find_green(context); green != nullptr) {
    green->gone.store(true, std::memory_order_release);
    present->streams_changed.fetch_add(1, std::memory_order_acq_rel);
    return;  // its memory is the primary context's and stays
  }
  context_entry* const entry = known_entry(context);
  if (entry == nullptr || GPUMEM_MUTANT(stale_context)) return;
  entry->forget();
  present->streams_changed.fetch_add(1, std::memory_order_acq_rel);
}

void pool_chosen(int device) noexcept {
  if (present != nullptr && static_cast<std::size_t>(device) < present->own_pool.size()) {
    present->own_pool[static_cast<std::size_t>(device)].store(true, std::memory_order_relaxed);
  }
}

void peer_access_enabled(CUcontext user, CUcontext owner) noexcept {
  if (present == nullptr) return;
  if (present->access.enable({user, owner, device_of(user), device_of(owner)})) tell_chains_of_peers();
}

void peer_access_disabled(CUcontext user, CUcontext owner) noexcept {
  if (present != nullptr && present->access.disable(user, owner)) tell_chains_of_peers();
}

void pool_shared(CUmemoryPool pool, int device) noexcept {
  auto const ask = driver::real.cuDeviceGetDefaultMemPool;
  CUmemoryPool of_device = nullptr;
  for (int owner = 0; owner < static_cast<int>(peers::max_devices) && ask != nullptr; ++owner) {
    if (ask(&of_device, owner) != CUDA_SUCCESS) return;
    if (of_device == pool && owner != device) pool_chosen(owner);
  }
}

// Other threads of the parent may have held any lock: nothing of the parent's is touched, all of it is left
// behind.
void forked_child() noexcept {
  present = nullptr;
  resource::budget::forget_all();
  resource::drop_thread();
  stream_order::active_captures.store(0, std::memory_order_relaxed);
}

}  // namespace gpumem::route
