// See parts.hpp. Here: the adaptors that watch: what passes, what is kept, what is damaged.
#include "config/builder/parts.hpp"
#include "core/resource/adaptors/guard.hpp"
#include "core/resource/adaptors/logging.hpp"
#include "core/resource/adaptors/statistics.hpp"
#include "core/resource/adaptors/tracking.hpp"

namespace gpumem::config {

namespace {

stats::event_log* log_of(option_reader const& options) {
  return stats::event_log::open(options.word("file").c_str(), options.flag("flush", false));
}

// Without its file (a message says why) the chain is as if it were not there.
resource::resource& logging(option_reader const& options, site const& at, resource::resource& below) {
  auto* const log = log_of(options);
  if (log == nullptr) return below;
  return at.chain.add(std::make_unique<resource::logging>(at.home, at.node, below, *log));
}

resource::source& segment_logging(option_reader const& options, site const& at, resource::source& below) {
  auto* const log = log_of(options);
  if (log == nullptr) return below;
  return at.chain.add_source(std::make_unique<resource::segment_logging>(at.home, at.node, below, *log));
}

resource::statistics_options statistics_options_of(option_reader const& options) {
  return {.callsites = options.flag("callsites", false), .histogram = options.flag("histogram", true)};
}

resource::resource& statistics(option_reader const& options, site const& at, resource::resource& below) {
  return at.chain.add(
      std::make_unique<resource::statistics>(at.home, at.node, statistics_options_of(options), below));
}

resource::source& segment_statistics(option_reader const& options, site const& at, resource::source& below) {
  return at.chain.add_source(
      std::make_unique<resource::segment_statistics>(at.node, statistics_options_of(options), below));
}

resource::resource& tracking(option_reader const& options, site const& at, resource::resource& below) {
  bool const stacks = options.flag("capture_stacks", false);
  return at.chain.add(std::make_unique<resource::tracking>(at.home, at.node, stacks, below));
}

resource::resource& guard(option_reader const& options, site const& at, resource::resource& below) {
  resource::guard_options const o{.fill_on_alloc = options.flag("fill_on_alloc", true),
                                  .fill_on_free = options.flag("fill_on_free", true),
                                  .redzone = options.bytes("redzone", 512)};
  return at.chain.add(std::make_unique<resource::guard>(at.home, at.node, o, below));
}

}  // namespace

resource::resource* make_observer(option_reader const& options, site const& at, resource::resource& below) {
  if (options.type() == "logging") return &logging(options, at, below);
  if (options.type() == "statistics") return &statistics(options, at, below);
  if (options.type() == "tracking") return &tracking(options, at, below);
  if (options.type() == "guard") return &guard(options, at, below);
  return nullptr;
}

resource::source* make_source_observer(option_reader const& options, site const& at,
                                       resource::source& below) {
  if (options.type() == "logging") return &segment_logging(options, at, below);
  if (options.type() == "statistics") return &segment_statistics(options, at, below);
  return nullptr;
}

}  // namespace gpumem::config
