// See local_time.hpp.
#include "core/base/local_time.hpp"

#include <atomic>
#include <ctime>

namespace gpumem::base {

static constinit std::atomic<bool> may_ask{true};
static constinit std::atomic<std::int64_t> known{0};

std::int64_t utc_offset_ns() noexcept {
  if (!may_ask.load(std::memory_order_relaxed)) return known.load(std::memory_order_relaxed);
  time_t const now = ::time(nullptr);
  tm local{};
  std::int64_t const found =
      ::localtime_r(&now, &local) == nullptr ? 0 : local.tm_gmtoff * std::int64_t{1'000'000'000};
  known.store(found, std::memory_order_relaxed);
  return found;
}

void no_local_time_in_child() noexcept {
  may_ask.store(false, std::memory_order_relaxed);
}

}  // namespace gpumem::base
