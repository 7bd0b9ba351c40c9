// Base of resources that add one behaviour to the one below and hold no segments (RMM's resource adaptor).
// A derived class overrides allocate and freed, and asks below_ for the block. Any thread. The blocks
// belong to the resource below: an adaptor may read them, and returns by give_back_block one that it cannot
// hand on. A few instructions on a hit, no lock, heap or driver call, unless its purpose is debugging.
#pragma once

#include "core/driver/error.hpp"
#include "core/resource/resource.hpp"

namespace gpumem::resource {

class adaptor : public resource {
 public:
  adaptor(chain_context const& home, std::size_t node, resource& below) noexcept
      : resource(home, node), below_(below) {
    below_.set_parent(*this);
  }

 protected:
  // Asks below for the block, counted as this resource's request.
  space::handle pass_down(allocation_request const& request) {
    stats::node_counters& counters = count();
    stats::add(counters.requests, 1);
    stats::add(counters.upstream, 1);
    try {
      space::handle const h = below_.allocate(request);
      stats::add(counters.bytes_in, blocks()[h].bytes());
      return h;
    } catch (driver::allocation_failed const&) {
      stats::add(counters.failed, 1);
      throw;
    }
  }
  // A block from below that the program never saw.
  void give_back_block(space::handle h, allocation_request const& request) noexcept {
    blocks()[h].now.store(space::state::cached, std::memory_order_release);
    take_back(owner_of(home_.where, h), h, {.slot = request.slot, .stream = request.stream}, this);
  }

  resource& below_;
};

}  // namespace gpumem::resource
