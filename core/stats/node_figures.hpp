// The exact figures of one node of a chain: what is out now, the most that was, and sizes. Kept in the node's
// part of the state page, or in the object where there is no page. Any thread; atomic additions, no lock.
#pragma once

#include "core/stats/callers/call_sites.hpp"

namespace gpumem::stats {

class node_figures {
 public:
  explicit node_figures(std::size_t node) noexcept;
  node_figures(node_figures const&) = delete;

  void taken(std::uint64_t bytes) noexcept;  // from below
  void given(std::uint64_t bytes) noexcept;  // back to it
  void asked(std::uint64_t bytes) noexcept;  // of this node, by size
  node_gauges const& gauges() const noexcept { return detail_->gauges; }
  size_bucket const& bucket(std::size_t index) const noexcept { return detail_->sizes[index]; }

 private:
  node_detail* detail_;  // of the node: chains of several contexts may be the same node
};

}  // namespace gpumem::stats
