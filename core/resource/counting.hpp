// Base of resources that hand on blocks of others, adaptors and selectors: the one place that counts their
// requests, frees and failures in the node's counters. A derived class does its work in serve() and
// given_back(). Any thread, as any resource.
#pragma once

#include "core/resource/counted_request.hpp"
#include "core/resource/resource.hpp"

namespace gpumem::resource {

class counting : public resource {
 public:
  using resource::resource;

  space::handle allocate(allocation_request const& request) final {
    counted_request counted(count());
    space::handle const h = serve(request);
    counted.served_by(blocks()[h]);
    return h;
  }
  void freed(space::handle h, free_order const& order) noexcept final {
    count_back(h, order);
    given_back(h, order);
  }
  void lost(space::handle h) noexcept override { count_back(h); }

 private:
  // As resource::allocate.
  virtual space::handle serve(allocation_request const& request) = 0;
  // As resource::freed.
  virtual void given_back(space::handle, free_order const&) noexcept {}
};

}  // namespace gpumem::resource
