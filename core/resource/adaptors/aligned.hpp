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

 private:
  space::handle serve(allocation_request const& request) override {
    if (request.bytes < threshold_) return pass_down(request);
    allocation_request larger = request;
    larger.alignment = std::max(request.alignment, alignment_);
    return pass_down(larger);
  }

  std::uint32_t const alignment_;
  std::uint64_t const threshold_;
};

}  // namespace gpumem::resource
