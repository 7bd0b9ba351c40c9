// `aligned`: blocks of at least `threshold` bytes get addresses that are multiples of `alignment` (RMM's
// aligned_resource_adaptor). It only passes the wish down; the resource below that carves blocks does it.
#pragma once

#include <algorithm>

#include "core/resource/adaptors/adaptor.hpp"

namespace gpumem::resource {

class aligned final : public adaptor {
 public:
  aligned(chain_context const& home, std::size_t node, std::uint32_t alignment, std::uint64_t threshold,
          resource& below) noexcept
      : adaptor(home, node, below), alignment_(alignment), threshold_(threshold) {}

  space::handle allocate(allocation_request const& request) override {
    auto& counters = count();
    stats::add(counters.requests, 1);
    space::handle h = space::none;
    if (request.bytes < threshold_) {
      h = below_.allocate(request);
    } else {
      allocation_request larger = request;
      larger.alignment = std::max(request.alignment, alignment_);
      stats::add(counters.upstream, 1);
      h = below_.allocate(larger);
    }
    stats::add(counters.bytes_in, blocks()[h].bytes());
    return h;
  }
  void freed(space::handle h, free_order const&) noexcept override {
    stats::add(count().bytes_out, blocks()[h].bytes());
  }

 private:
  std::uint32_t const alignment_;
  std::uint64_t const threshold_;
};

}  // namespace gpumem::resource
