// Base of adaptors below a pool: they add one behaviour to the segments that pass, not to blocks. The one
// place that counts them, in the node's counters. A derived class overrides what it changes. Called on slow
// paths, from any thread, as any source.
#pragma once

#include "core/resource/source.hpp"
#include "core/stats/page/counters.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::resource {

class source_adaptor : public source {
 public:
  source_adaptor(std::size_t node, source& below) noexcept : below_(below), node_(node) {}

  extent reserve(allocation_request const& request) final {
    stats::add(count().requests, 1);
    try {
      extent const memory = serve(request);
      stats::add(count().bytes_in, memory.bytes);
      return memory;
    } catch (driver::allocation_failed const&) {
      stats::add(count().failed, 1);
      throw;
    }
  }
  void release(extent const& memory, release_order const& order) noexcept final {
    stats::add(count().bytes_out, memory.bytes);
    leaving(memory, order.stream);
    below_.release(memory, order);
    left(memory);
  }
  void lost(extent const& memory) noexcept final {
    stats::add(count().bytes_out, memory.bytes);
    leaving(memory, nullptr);
    below_.lost(memory);
    left(memory);
  }
  std::uint64_t trim(give_back_scope scope) noexcept override { return below_.trim(scope); }
  bool counts_in(budget const& b) const noexcept override { return below_.counts_in(b); }
  bool takes_back_when_idle() const noexcept override { return below_.takes_back_when_idle(); }
  bool takes_back_at_once() const noexcept override { return below_.takes_back_at_once(); }
  std::optional<std::uint64_t> free_at_driver() noexcept override { return below_.free_at_driver(); }
  std::uint64_t left_to_limit() const noexcept override { return below_.left_to_limit(); }
  bool is_hopeless(std::uint64_t bytes, std::uint64_t back) noexcept override {
    return below_.is_hopeless(bytes, back);
  }
  bool refuses_as_well(std::uint64_t bytes, std::uint64_t more) noexcept override {
    return below_.refuses_as_well(bytes, more);
  }

 protected:
  stats::node_counters& count() const noexcept { return stats::local().nodes[node_]; }
  // Asks below for the memory, counted as asked of upstream.
  extent pass_down(allocation_request const& request) {
    stats::add(count().upstream, 1);
    return below_.reserve(request);
  }

  source& below_;
  std::size_t const node_;

 private:
  // As source::reserve.
  virtual extent serve(allocation_request const& request) = 0;
  // The memory is about to go back, by release() or lost(): it is not anybody else's yet.
  virtual void leaving(extent const&, CUstream) noexcept {}
  // It has gone back.
  virtual void left(extent const&) noexcept {}
};

}  // namespace gpumem::resource
