// The owner of memory that the program has freed and the driver does not have back yet: its addresses are
// segments of nobody's blocks, so that a second free of one is refused as natively, as long as its context is
// there. Made and asked by the upstreams that keep such memory; hands nothing out.
#pragma once

#include "core/resource/resource.hpp"

namespace gpumem::upstream {

class leaving final : public resource::resource {
 public:
  explicit leaving(gpumem::resource::chain_context const& home) noexcept : resource(home, 0) {}
  space::handle allocate(gpumem::resource::allocation_request const&) override { return space::none; }
};

}  // namespace gpumem::upstream
