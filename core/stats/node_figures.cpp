// See node_figures.hpp.
#include "core/stats/node_figures.hpp"

#include "core/stats/page_state.hpp"
#include "core/stats/state_page.hpp"

namespace gpumem::stats {
namespace {

std::uint64_t add_shared(std::uint64_t& gauge, std::uint64_t amount) noexcept {
  return std::atomic_ref<std::uint64_t>(gauge).fetch_add(amount, std::memory_order_relaxed) + amount;
}

void raise(std::uint64_t& highest, std::uint64_t value) noexcept {
  std::atomic_ref<std::uint64_t> slot(highest);
  std::uint64_t seen = slot.load(std::memory_order_relaxed);
  while (seen < value && !slot.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

constinit node_detail before_page[max_nodes]{};

}  // namespace

node_figures::node_figures(std::size_t node) noexcept : detail_(&before_page[node]) {
  page* const now = current_page();
  if (now == nullptr) return;
  locked guard;
  detail_ = &now->details[node];
  std::uint8_t& present = now->fixed.head.detail_present[node];
  if (present == 0) back_part(*now, detail_, sizeof *detail_);
  present = 1;
}

void node_figures::taken(std::uint64_t bytes) noexcept {
  raise(detail_->gauges.peak_bytes, add_shared(detail_->gauges.bytes_now, bytes));
  raise(detail_->gauges.peak_blocks, add_shared(detail_->gauges.blocks_now, 1));
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  blocks_.fetch_add(1, std::memory_order_relaxed);
}

void node_figures::given(std::uint64_t bytes) noexcept {
  add_shared(detail_->gauges.bytes_now, 0 - bytes);
  add_shared(detail_->gauges.blocks_now, ~std::uint64_t{0});
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  blocks_.fetch_sub(1, std::memory_order_relaxed);
}

void node_figures::all_lost() noexcept {
  add_shared(detail_->gauges.bytes_now, 0 - bytes_.exchange(0, std::memory_order_relaxed));
  add_shared(detail_->gauges.blocks_now, 0 - blocks_.exchange(0, std::memory_order_relaxed));
}

void node_figures::asked(std::uint64_t bytes) noexcept {
  size_bucket& bucket = detail_->sizes[bucket_of(bytes)];
  add_shared(bucket.count, 1);
  add_shared(bucket.bytes, bytes);
}

}  // namespace gpumem::stats
