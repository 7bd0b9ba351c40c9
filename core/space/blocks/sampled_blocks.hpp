// Which blocks were sampled, and what each stands for (stats/callers/samples). Marked and remembered when the
// program gets the block, taken off when it gives it back or its context ends. Any thread; the entry of a
// live block belongs to whoever has the block. Addresses are reserved at the first sample.
#pragma once

#include <atomic>
#include <optional>
#include <utility>

#include "core/base/threads/mutex.hpp"
#include "core/space/blocks/block.hpp"
#include "core/space/blocks/side_table.hpp"
#include "core/stats/callers/samples.hpp"

namespace gpumem::space {

class sampled_blocks {
 public:
  // The sample is counted already; where there is no room to remember it, no longer.
  void took(block& b, handle h, stats::sample const& of) noexcept {
    if (of.is_none()) return;
    stats::sample* const kept = table().make(h);
    if (kept == nullptr) return stats::count_sampled_free(of);
    *kept = of;
    if (!b.is(sampled)) b.mark(sampled);
  }
  // Of a block with the mark.
  void gave(block& b, handle h) noexcept {
    b.unmark(sampled);
    gave_and_stays_marked(h);
  }
  // Where every block has the mark, as each free is to be seen: two locked instructions a pair less. One that
  // is left over when that ends costs its next free a look.
  void gave_and_stays_marked(handle h) noexcept {
    auto* const made = made_.load(std::memory_order_acquire);
    stats::sample* const kept = made != nullptr ? made->find(h) : nullptr;
    if (kept != nullptr) stats::count_sampled_free(std::exchange(*kept, {}));
  }

 private:
  using samples = side_table<stats::sample>;

  samples& table() noexcept {
    if (auto* const made = made_.load(std::memory_order_acquire); made != nullptr) return *made;
    base::lock_guard const lock(making_);
    if (!table_) made_.store(&table_.emplace(), std::memory_order_release);
    return *table_;
  }

  base::mutex making_;
  std::optional<samples> table_ GPUMEM_GUARDED_BY(making_);
  std::atomic<samples*> made_{nullptr};
};

}  // namespace gpumem::space
