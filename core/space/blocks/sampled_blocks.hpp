// Which blocks were sampled, and what each stands for (stats/callers/samples). Marked and remembered when the
// program gets the block, taken off when it gives it back or its context ends. Where a recording runs, also
// when each block had its last event. Any thread; the entry of a live block belongs to whoever has the block.
// Addresses are reserved at the first sample.
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
  // The memory of the first entries is there from now on.
  void make_first_pages() noexcept { table().make(none); }
  // The sample is counted already; where there is no room to remember it, no longer.
  void took(block& b, handle h, stats::sample const& of) noexcept {
    if (of.is_none()) return;
    entry* const kept = table().make(h);
    if (kept == nullptr) return stats::count_sampled_free(of);
    kept->of = of;
    if (!b.is(sampled)) b.mark(sampled);
  }
  // Of a block with the mark.
  void gave(block& b, handle h) noexcept {
    b.unmark(sampled);
    auto* const made = made_.load(std::memory_order_acquire);
    entry* const kept = made != nullptr ? made->find(h) : nullptr;
    if (kept != nullptr) stats::count_sampled_free(std::exchange(kept->of, {}));
  }

  // --- where a recording runs ---
  struct entry {
    stats::sample of;
    std::uint64_t last_event;  // its stamp
  };
  // Every block has the mark then, as each free is to be seen, and keeps it while nobody has the block: two
  // locked instructions a pair less. One that is left over when that ends costs its next free a look. Null:
  // no room to remember anything.
  entry* took_recorded(block& b, handle h, stats::sample const& of) noexcept {
    if (!b.is(sampled)) b.mark(sampled);
    entry* const kept = table().make(h);
    if (kept != nullptr)
      kept->of = of;
    else
      stats::count_sampled_free(of);
    return kept;
  }
  entry* gave_recorded(handle h) noexcept {
    auto* const made = made_.load(std::memory_order_acquire);
    entry* const kept = made != nullptr ? made->find(h) : nullptr;
    if (kept != nullptr && !kept->of.is_none()) stats::count_sampled_free(std::exchange(kept->of, {}));
    return kept;
  }

 private:
  using samples = side_table<entry>;

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
