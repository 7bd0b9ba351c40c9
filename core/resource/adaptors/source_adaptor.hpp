// Base of adaptors below a pool: they add one behaviour to the segments that pass, not to blocks. A derived
// class overrides what it changes. Called on slow paths, from any thread, as any source.
#pragma once

#include "core/resource/source.hpp"

namespace gpumem::resource {

class source_adaptor : public source {
 public:
  explicit source_adaptor(source& below) noexcept : below_(below) {}

  extent reserve(allocation_request const& request) override { return below_.reserve(request); }
  void release(extent const& memory, CUstream order) noexcept override { below_.release(memory, order); }
  void lost(extent const& memory) noexcept override { below_.lost(memory); }
  std::uint64_t trim() noexcept override { return below_.trim(); }
  bool counts_in(budget const& b) const noexcept override { return below_.counts_in(b); }

 protected:
  source& below_;
};

}  // namespace gpumem::resource
