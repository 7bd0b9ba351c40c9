// What is known of loaded files, by the addresses of their code: found without a lock. Kept until `now` moves
// on, as a file may be unloaded, and another lie there then. Any thread; when another one writes, or the
// table is full, nothing is kept and the next caller asks the loader again.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "core/base/files/loaded_object.hpp"

namespace gpumem::base {

class object_values {
 public:
  struct known {
    loaded_object object;
    std::uint64_t value = 0;
  };

  // `now`: never 0.
  std::optional<known> find(std::uintptr_t address, std::uint64_t now) const noexcept {
    for (entry const& one : table_) {
      if (one.since.load(std::memory_order_acquire) != now) continue;
      std::uint64_t const writes = one.writes.load(std::memory_order_acquire);
      known const found{{one.low.load(std::memory_order_acquire), one.high.load(std::memory_order_acquire)},
                        one.value.load(std::memory_order_acquire)};
      bool const whole = one.since.load(std::memory_order_acquire) == now && writes % 2 == 0 &&
                         one.writes.load(std::memory_order_relaxed) == writes;
      if (whole && found.object.low <= address && address < found.object.high) return found;
    }
    return std::nullopt;
  }

  // Its memory is there from now on, before the first that is remembered.
  void make_pages() noexcept {
    writing_.clear(std::memory_order_relaxed);
    table_.front().since.store(0, std::memory_order_relaxed);
  }

  void remember(known const& what, std::uint64_t now) noexcept {
    if (writing_.test_and_set(std::memory_order_acquire)) return;
    for (entry& place : table_) {
      if (place.since.load(std::memory_order_relaxed) == now) continue;  // in use
      std::uint64_t const writes = place.writes.load(std::memory_order_relaxed);
      place.writes.store(writes + 1, std::memory_order_relaxed);
      place.since.store(0, std::memory_order_release);
      place.low.store(what.object.low, std::memory_order_release);
      place.high.store(what.object.high, std::memory_order_release);
      place.value.store(what.value, std::memory_order_release);
      place.since.store(now, std::memory_order_release);
      place.writes.store(writes + 2, std::memory_order_release);
      break;
    }
    writing_.clear(std::memory_order_release);
  }

 private:
  // Read while it is written, so that `writes` is odd then and read again afterwards. `since` alone would not
  // do: a writer that read an older `now` may take a place, and the next one give it the newer `now` again.
  struct entry {
    std::atomic<std::uint64_t> writes{0};
    std::atomic<std::uint64_t> since{0};
    std::atomic<std::uintptr_t> low{0}, high{0};
    std::atomic<std::uint64_t> value{0};
  };
  std::array<entry, 64> table_{};
  std::atomic_flag writing_{};
};

}  // namespace gpumem::base
