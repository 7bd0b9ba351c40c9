// See thread_slots.hpp.
#include "core/resource/pools/cache/thread_slots.hpp"

#include <pthread.h>

#include <atomic>
#include <new>

#include "core/resource/pools/cache/cache_set.hpp"

namespace gpumem::resource {

constinit thread_slots no_slots;
constinit thread_local thread_slots* own_slots = &no_slots;

namespace {

// Bit n: a thread has number n.
std::array<std::atomic<std::uint64_t>, 8> numbers{};
constexpr std::uint32_t most_numbers = 64 * 8;

std::uint32_t take_number() noexcept {
  for (std::uint32_t word = 0; word < numbers.size(); ++word) {
    std::uint64_t seen = numbers[word].load(std::memory_order_relaxed);
    while (~seen != 0) {
      if (!numbers[word].compare_exchange_weak(seen, seen | (seen + 1), std::memory_order_relaxed)) continue;
      return 64 * word + static_cast<std::uint32_t>(__builtin_ctzll(~seen));
    }
  }
  static std::atomic<std::uint32_t> beyond{0};  // all are taken: from here on threads share them
  return most_numbers + beyond.fetch_add(1, std::memory_order_relaxed);
}
void return_number(std::uint32_t number) noexcept {
  if (number < most_numbers)
    numbers[number / 64].fetch_and(~(1ull << number % 64), std::memory_order_relaxed);
}

pthread_key_t key;
std::atomic<bool> have_key{false};

void leave(void* pointer) {
  auto* slots = static_cast<thread_slots*>(pointer);
  own_slots = &no_slots;
  for (auto const& e : slots->entries) {
    if (e.own != nullptr) e.owner->hand_back(e.own);
  }
  return_number(slots->number);
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
  slots->number = take_number();
  own_slots = slots;
  return slots;
}

void drop_thread() noexcept {
  if (own_slots == &no_slots) return;
  own_slots = &no_slots;
  if (have_key.load(std::memory_order_acquire)) pthread_setspecific(key, nullptr);
}

}  // namespace gpumem::resource
