// See thread_slots.hpp.
#include "core/resource/thread_slots.hpp"

#include <pthread.h>

#include <atomic>
#include <new>

#include "core/resource/suballocator.hpp"

namespace gpumem::resource {

constinit thread_local thread_slots* own_slots = nullptr;

namespace {

pthread_key_t key;
std::atomic<bool> have_key{false};

void leave(void* pointer) {
  auto* slots = static_cast<thread_slots*>(pointer);
  own_slots = nullptr;
  for (auto const& e : slots->entries) {
    if (e.own != nullptr) e.owner->return_magazine(e.own);
  }
  delete slots;
}

}  // namespace

thread_slots* attach_thread() noexcept {
  static bool const made = [] { return pthread_key_create(&key, leave) == 0; }();
  have_key.store(made, std::memory_order_release);
  if (!made) return nullptr;
  auto* slots = new (std::nothrow) thread_slots;
  if (slots == nullptr) return nullptr;
  if (pthread_setspecific(key, slots) != 0) {
    delete slots;
    return nullptr;
  }
  own_slots = slots;
  return slots;
}

void drop_thread() noexcept {
  if (own_slots == nullptr) return;
  own_slots = nullptr;
  if (have_key.load(std::memory_order_acquire)) pthread_setspecific(key, nullptr);
}

}  // namespace gpumem::resource
