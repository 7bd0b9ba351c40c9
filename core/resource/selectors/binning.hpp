// `binning`: sends a request to the first bin it fits in, larger ones to the rest of the chain (RMM's
// binning_memory_resource; these bins preallocate nothing). Immutable after construction, so it needs no
// lock.
#pragma once

#include <algorithm>
#include <vector>

#include "core/resource/resource.hpp"

namespace gpumem::resource {

class binning final : public resource {
 public:
  // Requests up to `max` bytes go to this resource.
  struct bin {
    std::uint64_t max;  // bytes, ascending
    resource* to;
  };
  binning(chain_context const& home, std::size_t node, std::vector<bin> bins, resource& rest) noexcept
      : resource(home, node), bins_(std::move(bins)), rest_(rest) {
    rest_.set_parent(*this);
    for (bin const& b : bins_) b.to->set_parent(*this);
  }

  space::handle allocate(allocation_request const& request) override {
    auto const found = std::lower_bound(bins_.begin(), bins_.end(), request.bytes,
                                        [](bin const& b, std::uint64_t bytes) { return b.max < bytes; });
    auto& counters = count();
    stats::add(counters.requests, 1);
    stats::add(found == bins_.end() ? counters.upstream : counters.hits, 1);
    space::handle const h = (found == bins_.end() ? rest_ : *found->to).allocate(request);
    stats::add(counters.bytes_in, blocks()[h].bytes());
    return h;
  }
  void freed(space::handle h, free_order const&) noexcept override {
    stats::add(count().bytes_out, blocks()[h].bytes());
  }

 private:
  std::vector<bin> const bins_;
  resource& rest_;
};

}  // namespace gpumem::resource
