// Owner of memory that the program has freed and the driver does not have back yet. It hands nothing out:
// its segments only make a second free of such an address be refused, as natively, as long as its context
// is there. Used by the upstreams that keep such memory.
#pragma once

#include "core/resource/resource.hpp"

namespace gpumem::upstream {

class leaving final : public resource::resource {
 public:
  explicit leaving(gpumem::resource::chain_context const& home) noexcept : resource(home, 0) {}
  space::handle allocate(gpumem::resource::allocation_request const&) override { return space::none; }
};

}  // namespace gpumem::upstream
