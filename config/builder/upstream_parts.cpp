// See parts.hpp. Here: the upstreams, which end a chain.
#include "config/builder/parts.hpp"
#include "core/upstream/cuda.hpp"
#include "core/upstream/cuda_async.hpp"
#include "core/upstream/host/system.hpp"
#include "core/upstream/managed.hpp"
#include "core/upstream/vmm.hpp"

namespace gpumem::config {

namespace {

std::unique_ptr<resource::source> cuda_async(option_reader const& options, site const& at) {
  upstream::cuda_async::options const o{
      .initial_pool_size = options.bytes("initial_pool_size", 0),
      .release_threshold = options.bytes("release_threshold", ~std::uint64_t{0}),
      .own_pool = options.word("pool") != "default"};
  return std::make_unique<upstream::cuda_async>(at.home, at.node, o);
}

std::unique_ptr<resource::source> cuda_async_managed(site const& at) {
  upstream::cuda_async::options const o{.own_pool = false, .managed = true};
  return std::make_unique<upstream::cuda_async>(at.home, at.node, o);
}

std::unique_ptr<resource::source> vmm(option_reader const& options, site const& at) {
  return std::make_unique<upstream::vmm>(at.home, at.node, options.bytes("reserve", 0));
}

std::unique_ptr<resource::source> managed(option_reader const& options, site const& at) {
  std::string const where = options.word("preferred_location");
  using location = upstream::managed::location;
  upstream::managed::options const o{.preferred_location = where == "host"     ? location::host
                                                           : where == "device" ? location::device
                                                                               : location::any,
                                     .read_mostly = options.flag("read_mostly", false)};
  return std::make_unique<upstream::managed>(at.home, at.node, o);
}

std::unique_ptr<resource::source> pinned_host(option_reader const& options, site const& at) {
  return std::make_unique<upstream::pinned_host>(at.home, at.node, pinned_flags_of(options));
}

std::unique_ptr<resource::source> system_memory(option_reader const& options, site const& at) {
  return std::make_unique<upstream::system>(at.home, at.node, options.bytes("headroom", 0));
}

}  // namespace

unsigned pinned_flags_of(option_reader const& options) {
  unsigned flags = 0;
  if (options.flag("portable", false)) flags |= CU_MEMHOSTALLOC_PORTABLE;
  if (options.flag("mapped", false)) flags |= CU_MEMHOSTALLOC_DEVICEMAP;
  if (options.flag("write_combined", false)) flags |= CU_MEMHOSTALLOC_WRITECOMBINED;
  return flags;
}

resource::source* make_upstream(option_reader const& options, site const& at) {
  std::unique_ptr<resource::source> made;
  if (options.type() == "cuda") made = std::make_unique<upstream::cuda>(at.home, at.node);
  if (options.type() == "managed") made = managed(options, at);
  if (options.type() == "pinned_host") made = pinned_host(options, at);
  if (options.type() == "cuda_async") made = cuda_async(options, at);
  if (options.type() == "cuda_async_managed") made = cuda_async_managed(at);
  if (options.type() == "system") made = system_memory(options, at);
  if (options.type() == "vmm") made = vmm(options, at);
  return made != nullptr ? &at.chain.add_source(std::move(made)) : nullptr;
}

}  // namespace gpumem::config
