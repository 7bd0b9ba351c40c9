// `statistics`: exact figures of what passes at its place in the chain: bytes and blocks now, at most and
// in all, sizes as asked, and by whom (RMM's statistics_resource_adaptor). Above a pool of the program's
// blocks, below one of the pool's segments. All figures live in the state page. Any thread; a peak is one
// figure for all threads, so each call adds to a shared cache line. Bytes include rounding, as in the
// counters of its neighbours.
#pragma once

#include "core/resource/adaptors/adaptor.hpp"
#include "core/resource/adaptors/source_adaptor.hpp"
#include "core/stats/events/windows.hpp"
#include "core/stats/node_figures.hpp"

namespace gpumem::resource {

struct statistics_options {
  bool callsites = false;
  bool histogram = true;
};

class statistics final : public adaptor {
 public:
  statistics(chain_context const& home, std::size_t node, statistics_options const& options,
             resource& below) noexcept
      : adaptor(home, node, below), options_(options), figures_(node) {
    if (options.callsites) stats::open_caller_tables();
    if (home.kind != driver::memory_kind::host) stats::use_exact_windows(home.device_slot);
  }

  void lost(space::handle h) noexcept override { freed(h, {}); }

 private:
  space::handle serve(allocation_request const& request) override;
  void given_back(space::handle h, free_order const& order) noexcept override;

  statistics_options const options_;
  stats::node_figures figures_;
};

// The form below a pool: figures of the pool's segments.
class segment_statistics final : public source_adaptor {
 public:
  segment_statistics(std::size_t node, statistics_options const& options, source& below) noexcept
      : source_adaptor(node, below), options_(options), figures_(node) {}

 private:
  extent serve(allocation_request const& request) override;
  void leaving(extent const& memory, CUstream) noexcept override;

  statistics_options const options_;
  stats::node_figures figures_;
};

}  // namespace gpumem::resource
