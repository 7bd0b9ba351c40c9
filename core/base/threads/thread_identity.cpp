// See thread_identity.hpp. An identity is a count of threads and, in its lower bits, its thread's number.
#include "core/base/threads/thread_identity.hpp"

#include <array>
#include <atomic>

namespace gpumem::base {

namespace {

constexpr std::uint32_t most_numbers = 512;
constexpr unsigned number_bits = 10;
constexpr std::uint32_t shared_number = (1u << number_bits) - 1;  // of all threads beyond

constexpr std::uint32_t number_in(thread_identity who) noexcept {
  return static_cast<std::uint32_t>(who) & shared_number;
}

// Bit n: a thread has number n; and who that is.
constinit std::array<std::atomic<std::uint64_t>, most_numbers / 64> numbers_taken{};
constinit std::array<std::atomic<thread_identity>, most_numbers> present{};
constinit std::atomic<std::uint64_t> begun{0};

std::uint32_t take_number() noexcept {
  for (std::uint32_t word = 0; word < numbers_taken.size(); ++word) {
    std::uint64_t seen = numbers_taken[word].load(std::memory_order_relaxed);
    while (~seen != 0) {
      // Whoever had it before and ended comes before what this thread says of it (is_gone).
      if (!numbers_taken[word].compare_exchange_weak(seen, seen | (seen + 1), std::memory_order_acquire))
        continue;
      return 64 * word + static_cast<std::uint32_t>(__builtin_ctzll(~seen));
    }
  }
  return most_numbers;
}

}  // namespace

std::uint32_t begin_thread() noexcept {
  std::uint64_t const ordinal = begun.fetch_add(1, std::memory_order_relaxed) + 1;
  std::uint32_t const number = take_number();
  if (number == most_numbers) {
    this_thread = ordinal << number_bits | shared_number;
    static std::atomic<std::uint32_t> beyond{0};  // all are taken: from here on threads share them
    return most_numbers + beyond.fetch_add(1, std::memory_order_relaxed);
  }
  this_thread = ordinal << number_bits | number;
  present[number].store(this_thread, std::memory_order_release);
  return number;
}

void end_thread() noexcept {
  std::uint32_t const number = number_in(this_thread);
  if (this_thread == nobody) return;
  this_thread = nobody;
  if (number == shared_number) return;
  // What it did last in its own name is seen by whoever finds it gone.
  present[number].store(nobody, std::memory_order_release);
  numbers_taken[number / 64].fetch_and(~(1ull << number % 64), std::memory_order_release);
}

void forget_thread() noexcept {
  this_thread = nobody;
}

bool is_gone(thread_identity who) noexcept {
  if (who == nobody) return true;
  std::uint32_t const number = number_in(who);
  return number != shared_number && present[number].load(std::memory_order_acquire) != who;
}

}  // namespace gpumem::base
