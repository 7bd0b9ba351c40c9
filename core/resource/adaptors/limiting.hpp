// `limiting`: refuses what would exceed a budget (RMM's limiting_resource_adaptor; here the budget also
// counts what the program takes without a chain). Above a pool it counts blocks, below one segments;
// resources of one name share one budget. A request and a free cost an atomic instruction each; no lock.
#pragma once

#include <algorithm>

#include "core/resource/adaptors/adaptor.hpp"
#include "core/resource/adaptors/budget.hpp"
#include "core/resource/adaptors/source_adaptor.hpp"

namespace gpumem::resource {

class limiting final : public adaptor {
 public:
  limiting(chain_context const& home, std::size_t node, resource& below, budget& shared) noexcept
      : adaptor(home, node, below), budget_(shared) {}

  void lost(space::handle h) noexcept override { freed(h, {}); }

 private:
  space::handle serve(allocation_request const& request) override;
  void given_back(space::handle h, free_order const&) noexcept override;
  // Takes the bytes from the budget; throws where they exceed it.
  void take(std::uint64_t bytes);
  space::handle pass_on(allocation_request const& request, std::uint64_t bytes);

  budget& budget_;
};

// The form below a pool. What the limit refuses the pool answers as it answers the driver: it waits, gives
// back and asks again.
class limiting_source final : public source_adaptor {
 public:
  limiting_source(std::size_t node, source& below, budget& shared) noexcept
      : source_adaptor(node, below), budget_(shared) {
    budget_.counts_segments();
  }

  bool counts_in(budget const& b) const noexcept override { return &b == &budget_ || below_.counts_in(b); }
  // The limit may decide as well, and others take from it.
  std::optional<std::uint64_t> free_at_driver() noexcept override { return std::nullopt; }
  std::uint64_t left_to_limit() const noexcept override {
    return std::min(below_.left_to_limit(), budget_.left());
  }

 private:
  extent serve(allocation_request const& request) override;
  void left(extent const& memory) noexcept override { budget_.give(memory.bytes); }

  budget& budget_;
};

}  // namespace gpumem::resource
