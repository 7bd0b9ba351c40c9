// See node_figures.hpp.
#include "core/stats/node_figures.hpp"

#include "core/stats/page/page_state.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::stats {
namespace {

constinit node_detail without_page{};  // of all nodes: nothing will read it

}  // namespace

node_figures::node_figures(std::size_t node) noexcept : detail_(&without_page) {
  page* const now = current_page();
  if (now == nullptr) return;
  locked guard;
  node_detail_slot& slot = now->details[node];
  detail_ = &slot.figures;
  std::uint8_t& present = now->fixed.head.detail_present[node];
  if (present == 0) back_part(*now, &slot, sizeof slot);
  present = 1;
}

void node_figures::taken(std::uint64_t bytes) noexcept {
  gauge_raise(detail_->gauges.peak_bytes, gauge_add(detail_->gauges.bytes_now, bytes));
  gauge_raise(detail_->gauges.peak_blocks, gauge_add(detail_->gauges.blocks_now, 1));
}

void node_figures::given(std::uint64_t bytes) noexcept {
  gauge_subtract(detail_->gauges.bytes_now, bytes);
  gauge_subtract(detail_->gauges.blocks_now, 1);
}

void node_figures::asked(std::uint64_t bytes) noexcept {
  size_bucket& bucket = detail_->sizes[bucket_of(bytes)];
  gauge_add(bucket.count, 1);
  gauge_add(bucket.bytes, bytes);
}

}  // namespace gpumem::stats
