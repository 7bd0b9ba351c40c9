// Base of resources that add one behaviour to the one below and hold no segments (RMM's resource adaptor).
// Requests and frees are counted by `counting`; a derived class says in serve() what it does with a request,
// and asks pass_down() for the block. Any thread. The blocks belong to the resource below: an adaptor may
// read them, and returns by give_back_unseen one that it cannot hand on. A few instructions on a hit, no
// lock, heap or driver call, unless its purpose is debugging.
#pragma once

#include "core/resource/counting.hpp"

namespace gpumem::resource {

class adaptor : public counting {
 public:
  adaptor(chain_context const& home, std::size_t node, resource& below) noexcept
      : counting(home, node), below_(below) {
    below_.set_parent(*this);
  }

 protected:
  // Asks below for the block, counted as asked of upstream.
  space::handle pass_down(allocation_request const& request) {
    stats::add(count().upstream, 1);
    return below_.allocate(request);
  }

  resource& below_;
};

}  // namespace gpumem::resource
