// Base of resources that hand on blocks of others, adaptors and selectors: the one place that counts their
// requests, frees and failures in the node's counters. A derived class does its work in serve() and
// given_back(). Any thread, as any resource.
#pragma once

#include "core/driver/error.hpp"
#include "core/resource/resource.hpp"

namespace gpumem::resource {

class counting : public resource {
 public:
  using resource::resource;

  space::handle allocate(allocation_request const& request) final {
    stats::node_counters& counters = count();
    stats::add(counters.requests, 1);
    try {
      space::handle const h = serve(request);
      stats::add(counters.bytes_in, blocks()[h].bytes());
      return h;
    } catch (driver::allocation_failed const&) {
      stats::add(counters.failed, 1);
      throw;
    }
  }
  void freed(space::handle h, free_order const& order) noexcept final {
    stats::add(count().bytes_out, blocks()[h].bytes());
    given_back(h, order);
  }

 private:
  // As resource::allocate.
  virtual space::handle serve(allocation_request const& request) = 0;
  // As resource::freed.
  virtual void given_back(space::handle, free_order const&) noexcept {}
};

}  // namespace gpumem::resource
