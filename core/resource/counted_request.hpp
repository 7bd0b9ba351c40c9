// One request in the counters of a node, on this thread: counted on its way in, and as served or failed on
// its way out. A refusal passes through as an exception, which to catch and throw again at each node costs
// more than all else of it.
#pragma once

#include "core/space/blocks/block.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::resource {

class counted_request {
 public:
  explicit counted_request(stats::node_counters& counters) noexcept : counters_(counters) {
    stats::add(counters_.requests, 1);
  }
  ~counted_request() {
    if (!served_) stats::add(counters_.failed, 1);
  }
  counted_request(counted_request const&) = delete;

  void served_by(space::block const& b) noexcept {
    stats::add(counters_.bytes_in, b.bytes());
    served_ = true;
  }

 private:
  stats::node_counters& counters_;
  bool served_ = false;
};

}  // namespace gpumem::resource
