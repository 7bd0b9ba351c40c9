// `binning`: sends a request to the first bin it fits in, larger ones to the rest of the chain (RMM's
// binning_memory_resource; these bins preallocate nothing). Immutable after construction, so it needs no
// lock.
#pragma once

#include <algorithm>
#include <vector>

#include "core/resource/counting.hpp"

namespace gpumem::resource {

class binning final : public counting {
 public:
  // Requests up to `max` bytes go to this resource.
  struct bin {
    std::uint64_t max;  // bytes, ascending
    resource* to;
  };
  binning(chain_context const& home, std::size_t node, std::vector<bin> bins, resource& rest) noexcept
      : counting(home, node), bins_(std::move(bins)), rest_(rest) {
    rest_.set_parent(*this);
    for (bin const& b : bins_) b.to->set_parent(*this);
  }

 private:
  space::handle serve(allocation_request const& request) override {
    auto const found = std::lower_bound(bins_.begin(), bins_.end(), request.bytes,
                                        [](bin const& b, std::uint64_t bytes) { return b.max < bytes; });
    stats::add(found == bins_.end() ? count().upstream : count().hits, 1);
    return (found == bins_.end() ? rest_ : *found->to).allocate(request);
  }

  std::vector<bin> const bins_;
  resource& rest_;
};

}  // namespace gpumem::resource
