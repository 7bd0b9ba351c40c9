// See thread_slots.hpp.
#include "core/resource/pools/cache/thread_slots.hpp"

#include <pthread.h>

#include <atomic>
#include <new>

#include "core/base/threads/thread_identity.hpp"
#include "core/resource/pools/cache/cache_set.hpp"

namespace gpumem::resource {

constinit thread_slots no_slots;
constinit thread_local thread_slots* own_slots = &no_slots;

namespace {

pthread_key_t key;
std::atomic<bool> have_key{false};

void leave(void* pointer) {
  auto* slots = static_cast<thread_slots*>(pointer);
  own_slots = &no_slots;
  base::end_thread();
  for (auto const& e : slots->entries) {
    if (e.own != nullptr) e.owner->hand_back(e.own);
  }
  delete slots;
}

}  // namespace

thread_slots* attach_thread() noexcept {
  if (own_slots != &no_slots) return own_slots;
  static bool const made = [] { return pthread_key_create(&key, leave) == 0; }();
  have_key.store(made, std::memory_order_release);
  if (!made) return nullptr;
  auto* slots = new (std::nothrow) thread_slots;
  if (slots == nullptr) return nullptr;
  if (pthread_setspecific(key, slots) != 0) {
    delete slots;
    return nullptr;
  }
  slots->number = base::begin_thread();
  own_slots = slots;
  return slots;
}

void drop_thread() noexcept {
  cache_set::forget_all();
  if (own_slots == &no_slots) return;
  own_slots = &no_slots;
  base::forget_thread();
  if (have_key.load(std::memory_order_acquire)) pthread_setspecific(key, nullptr);
}

}  // namespace gpumem::resource
