// See thread_streams.hpp.
#include "core/route/thread_streams.hpp"

#include <pthread.h>

#include <new>

#include "core/base/mutant.hpp"
#include "core/route/router_state.hpp"

namespace gpumem::route {

namespace {

// Of one thread; a few: one for each context that it used its stream in.
struct own_stream {
  router_state* of;  // a forked child leaves its parent's router behind
  context_entry* entry;
  std::uint64_t serial;  // of the context, as the entry may be another's
  std::uint64_t id;

  bool is_there() const noexcept {
    return of == present && entry->serial.load(std::memory_order_acquire) == serial &&
           !entry->gone.load(std::memory_order_acquire);
  }
  own_stream* next;
};

pthread_key_t key;

// What the key holds; kept beside it, since asking for that takes a symbol of newer C libraries.
constinit thread_local own_stream* own_streams = nullptr;

void leave(void* first) {
  own_streams = nullptr;
  for (auto* each = static_cast<own_stream*>(first); each != nullptr;) {
    if (each->is_there()) drop_slot(*each->entry, each->entry->streams.forget(each->id));
    own_stream* const next = each->next;
    delete each;
    each = next;
  }
}

}  // namespace

void drop_slot(context_entry& entry, stream_order::slot slot) noexcept {
  if (slot == stream_order::no_slot) return;
  if (!GPUMEM_MUTANT(slot_of_an_ended_thread)) {
    entry.each_chain([slot](resource::chain& c) { c.stream_gone(slot); });
  }
  entry.streams.recycle(slot);
}

void keep_thread_stream(context_entry& entry, std::uint64_t id) noexcept {
  static bool const have_key = pthread_key_create(&key, leave) == 0;
  if (!have_key) return;
  for (auto* each = own_streams; each != nullptr; each = each->next) {
    if (each->entry == &entry && each->id == id && each->is_there()) return;
  }
  // One of a context that has ended serves again.
  for (auto* each = own_streams; each != nullptr; each = each->next) {
    if (each->is_there()) continue;
    own_stream* const next = each->next;
    *each = {present, &entry, entry.serial, id, next};
    return;
  }
  auto* const made = new (std::nothrow) own_stream{present, &entry, entry.serial, id, own_streams};
  if (made == nullptr) return;
  if (pthread_setspecific(key, made) != 0) return delete made;
  own_streams = made;
}

}  // namespace gpumem::route
