// Work of other contexts that frees of one context wait for: a free in the order of another context's stream
// is ordered after that stream's work, which no event of its own context covers. Natively such a free returns
// at once, on any stream of any device (tests/gpu/freed_on_foreign_streams.cu), so the host must not wait for
// it either. Part of epochs, which holds its mutex for all but any(). An event here dies with the context of
// its stream, and so does that context's work.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/base/threads/sure_allocator.hpp"
#include "core/driver/table.hpp"

namespace gpumem::stream_order {

class epochs;
using epoch_id = std::uint32_t;  // see epochs.hpp

class foreign_work {
 public:
  // Epochs from `from` on wait for what `stream`, of the context of `other`, has to do now. False: that
  // cannot be had, as the driver refuses or there is too much of it.
  bool add(epoch_id from, epochs const& other, CUstream stream) noexcept;
  // The oldest epoch that waits for some, up to `last`; null: none does. Asks the driver, and drops what is
  // done.
  epoch_id const* oldest_waiting(epoch_id last) noexcept;
  void clear() noexcept;
  // Wait-free, any thread.
  bool any() const noexcept { return count_.load(std::memory_order_acquire) != 0; }

 private:
  struct awaited {
    epoch_id from;
    CUevent event;
    CUstream stream;
    epochs const* other;
    std::uint32_t life;  // of that context
  };
  static bool is_over(awaited const& one) noexcept;
  static void drop(awaited const& one) noexcept;

  static constexpr std::size_t many = 64;  // from here on later frees on a stream hold back earlier ones
  static constexpr std::size_t most = 1024;
  std::vector<awaited, base::sure_allocator<awaited>> all_;  // oldest first
  std::atomic<std::size_t> count_{0};
};

}  // namespace gpumem::stream_order
