// See tracking.hpp.
#include "core/resource/adaptors/tracking.hpp"

#include "core/driver/error.hpp"
#include "core/stats/callers/misuse.hpp"

namespace gpumem::resource {

stats::call_site tracking::site(void const* caller) noexcept {
  if (caller == nullptr) return stats::no_site;
  return capture_stacks_ ? stats::site_of_stack(node_, caller) : stats::site_of(node_, {&caller, 1});
}

space::handle tracking::serve(allocation_request const& request) {
  space::handle const h = pass_down(request);
  if (live_block* const noted = live_.make(h); noted != nullptr) {
    // A block that went with an earlier context, whose free is under way.
    if (noted->bytes != 0) stats::count_free(noted->from, noted->bytes);
    *noted = {request.bytes, site(request.caller()), home_.epochs.life()};
    stats::count_allocation(noted->from, request.bytes);
  }
  return h;
}

void tracking::given_back(space::handle h, free_order const& order) noexcept {
  live_block* const noted = live_.find(h);
  if (noted == nullptr || noted->bytes == 0) return;
  if (noted->life != order.life) return;
  stats::count_free(noted->from, noted->bytes);
  freed_block& slot = slot_of(blocks()[h].begin());
  slot.sites.store(noted->from | static_cast<std::uint64_t>(site(order.caller())) << 32,
                   std::memory_order_relaxed);
  slot.address.store(blocks()[h].begin(), std::memory_order_release);
  *noted = {};
}

bool tracking::refused(refused_free const& what) noexcept {
  stats::misuse fault{.kind = stats::misuse_kind::foreign_free, .node = node_, .address = what.address};
  freed_block& slot = slot_of(what.address);
  live_block const* const noted = what.inside != space::none ? live_.find(what.inside) : nullptr;
  if (noted != nullptr && noted->bytes != 0) {
    fault.kind = stats::misuse_kind::interior_free;
    fault.address = blocks()[what.inside].begin();
    fault.offset = what.address - fault.address;
    fault.bytes = noted->bytes;
    fault.allocated_at = noted->from;
  } else if (slot.address.load(std::memory_order_acquire) == what.address) {
    std::uint64_t const sites = slot.sites.load(std::memory_order_relaxed);
    fault.kind = stats::misuse_kind::double_free;
    fault.allocated_at = static_cast<stats::call_site>(sites);
    fault.freed_at = static_cast<stats::call_site>(sites >> 32);
  } else if (what.if_known) {
    return false;
  }
  fault.here = site(what.caller);
  stats::note_misuse(fault);
  return true;
}

// Its memory went with the context: it is no leak.
void tracking::lost(space::handle h) noexcept {
  count_back(h);
  live_block* const noted = live_.find(h);
  if (noted == nullptr || noted->bytes == 0) return;
  stats::count_free(noted->from, noted->bytes);
  *noted = {};
}

// What a context freed is no second free of the next one's.
void tracking::begin_again() noexcept {
  for (freed_block& each : recent_) each.address.store(0, std::memory_order_relaxed);
}

}  // namespace gpumem::resource
