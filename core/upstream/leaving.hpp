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

  // Null: there is no room for it.
  space::segment* add(gpumem::resource::extent const& memory) noexcept {
    return home_.where.segments.add(memory.address, memory.bytes, this, memory.contextless);
  }
  // Before it goes: from then on the address may be somebody else's. Null: nothing was added.
  void remove(space::segment* segment) noexcept {
    if (segment != nullptr) home_.where.segments.remove(segment);
  }
};

}  // namespace gpumem::upstream
