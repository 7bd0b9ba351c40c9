// See parts.hpp. Here: the adaptors `aligned`, `limiting` and `prefetch`.
#include "config/builder/budgets.hpp"
#include "config/builder/parts.hpp"
#include "core/resource/adaptors/aligned.hpp"
#include "core/resource/adaptors/limiting.hpp"
#include "core/resource/adaptors/prefetch.hpp"

namespace gpumem::config {

namespace {

std::unique_ptr<resource::resource> aligned(option_reader const& options, site const& at,
                                            resource::resource& below) {
  return std::make_unique<resource::aligned>(
      at.home, at.node, static_cast<std::uint32_t>(options.bytes("alignment", space::unit)),
      options.bytes("alignment_threshold", 0), below);
}

std::unique_ptr<resource::resource> limiting(option_reader const& options, site const& at,
                                             resource::resource& below) {
  return std::make_unique<resource::limiting>(at.home, at.node, below,
                                              budget_of(options, at.home.device, at.home.kind));
}

std::unique_ptr<resource::source> limiting(option_reader const& options, site const& at,
                                           resource::source& below) {
  return std::make_unique<resource::limiting_source>(at.node, below,
                                                     budget_of(options, at.home.device, at.home.kind));
}

// "current" is no number: the device of the chain's context.
int target_of(option_reader const& options, site const& at) {
  return static_cast<int>(options.number("device", at.home.device));
}

}  // namespace

resource::resource* make_adaptor(option_reader const& options, site const& at, resource::resource& below) {
  std::unique_ptr<resource::resource> made;
  if (options.type() == "aligned") made = aligned(options, at, below);
  if (options.type() == "limiting") made = limiting(options, at, below);
  if (options.type() == "prefetch")
    made = std::make_unique<resource::prefetch>(at.home, at.node, target_of(options, at), below);
  return made != nullptr ? &at.chain.add(std::move(made)) : make_observer(options, at, below);
}

resource::source* make_source_adaptor(option_reader const& options, site const& at, resource::source& below) {
  std::unique_ptr<resource::source> made;
  if (options.type() == "limiting") made = limiting(options, at, below);
  if (options.type() == "prefetch")
    made = std::make_unique<resource::prefetch_source>(at.home, at.node, target_of(options, at), below);
  return made != nullptr ? &at.chain.add_source(std::move(made)) : make_source_observer(options, at, below);
}

resource::resource* make_fallback(site const& at, std::vector<resource::fallback::branch> chains) {
  return &at.chain.add(std::make_unique<resource::fallback>(at.home, at.node, std::move(chains)));
}

resource::source* make_fallback(site const& at, std::vector<resource::fallback_source::branch> chains) {
  return &at.chain.add_source(
      std::make_unique<resource::fallback_source>(at.home, at.node, std::move(chains)));
}

}  // namespace gpumem::config
