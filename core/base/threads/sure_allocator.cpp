// See sure_allocator.hpp.
#include "core/base/threads/sure_allocator.hpp"

namespace gpumem::base {
namespace {

constexpr std::size_t room = 64 << 10;
alignas(16) constinit char reserve[room] = {};
constinit std::atomic<std::size_t> taken{0};

}  // namespace

void* take_from_reserve(std::size_t bytes) noexcept {
  bytes = (bytes + 15) & ~std::size_t{15};
  std::size_t at = taken.load(std::memory_order_relaxed);
  do {
    if (bytes > room - at) return nullptr;
  } while (!taken.compare_exchange_weak(at, at + bytes, std::memory_order_relaxed));
  return reserve + at;
}

bool is_of_reserve(void const* memory) noexcept {
  return memory >= reserve && memory < reserve + room;
}

}  // namespace gpumem::base
