// `logging`: writes each allocation and free to a file that RMM's replay benchmark reads (RMM's
// logging_resource_adaptor). Above a pool it logs the program's calls; below one, in the form of a source,
// the pool's segments. Any thread; on a hit it costs a copy into a ring (stats/events/event_log), and no line
// is written then.
#pragma once

#include "core/resource/adaptors/adaptor.hpp"
#include "core/resource/adaptors/source_adaptor.hpp"
#include "core/space/side_table.hpp"
#include "core/stats/events/event_log.hpp"

namespace gpumem::resource {

class logging final : public adaptor {
 public:
  logging(chain_context const& home, std::size_t node, resource& below, stats::event_log& log) noexcept
      : adaptor(home, node, below), log_(log) {}

  space::handle allocate(allocation_request const& request) override;
  void freed(space::handle h, free_order const& order) noexcept override;
  void forget() noexcept override;

 private:
  // As asked, of blocks that were logged: other adaptors may ask for more than the program did.
  space::side_table<std::uint64_t> asked_;
  stats::event_log& log_;
};

// The form below a pool: logs the pool's segments.
class segment_logging final : public source_adaptor {
 public:
  segment_logging(chain_context const& home, std::size_t node, source& below, stats::event_log& log) noexcept
      : source_adaptor(below), home_(home), node_(node), log_(log) {}

  extent reserve(allocation_request const& request) override;
  void release(extent const& memory, CUstream order) noexcept override;
  void lost(extent const& memory) noexcept override;

 private:
  stats::node_counters& count() noexcept { return stats::local().nodes[node_]; }

  chain_context const& home_;
  std::size_t const node_;
  stats::event_log& log_;
};

}  // namespace gpumem::resource
