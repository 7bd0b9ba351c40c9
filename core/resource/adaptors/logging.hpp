// `logging`: writes each allocation and free to a file that RMM's replay benchmark reads (RMM's
// logging_resource_adaptor). Above a pool it logs the program's calls; below one, in the form of a source,
// the pool's segments. Any thread; on a hit it costs a copy into a ring (stats/events/event_log), and no line
// is written then.
#pragma once

#include "core/resource/adaptors/adaptor.hpp"
#include "core/resource/adaptors/source_adaptor.hpp"
#include "core/space/blocks/side_table.hpp"
#include "core/stats/events/event_log.hpp"

namespace gpumem::resource {

class logging final : public adaptor {
 public:
  logging(chain_context const& home, std::size_t node, resource& below, stats::event_log& log) noexcept
      : adaptor(home, node, below), log_(log) {}

  // The driver freed it: without a line its address could be allocated twice in the file.
  void lost(space::handle h) noexcept override;

 private:
  space::handle serve(allocation_request const& request) override;
  void given_back(space::handle h, free_order const& order) noexcept override;

  // Of a block that was logged.
  struct logged {
    std::uint64_t address;
    // As asked: other adaptors may ask for more than the program did. 0: its free is logged.
    std::uint64_t bytes;
    std::uint32_t life;  // of the context, once the block was there: in another one the handle is another's
  };
  void log_free(logged& of, free_order const& order) noexcept;

  space::side_table<logged> logged_;
  stats::event_log& log_;
};

// The form below a pool: logs the pool's segments.
class segment_logging final : public source_adaptor {
 public:
  segment_logging(chain_context const& home, std::size_t node, source& below, stats::event_log& log) noexcept
      : source_adaptor(node, below), home_(home), log_(log) {}

 private:
  extent serve(allocation_request const& request) override;
  void leaving(extent const& memory, CUstream order) noexcept override;

  chain_context const& home_;
  stats::event_log& log_;
};

}  // namespace gpumem::resource
