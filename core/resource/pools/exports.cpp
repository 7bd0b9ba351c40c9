// Blocks of a suballocator that other processes may have open (cuIpcGetMemHandle). Natively freed memory
// lives on for an importer until it is closed there (measured, driver 580), so an exported block serves
// nobody else: its segment goes back to the driver, whose rules then hold. Programs export temporaries of
// the same sizes again and again: from a size's second export on each block has a segment of its own, which
// goes back when it is freed, at the price of cuMemAlloc and cuMemFree, as natively.
#include "core/base/contract.hpp"
#include "core/resource/pools/suballocator.hpp"

namespace gpumem::resource {

void suballocator::exported(std::uint64_t address) noexcept {
  lock held(mutex_);
  space::segment* const in = home_.where.segments.containing(address, this);
  if (in == nullptr) return;
  std::atomic_ref<bool>(in->pinned).store(true, std::memory_order_relaxed);
  // Not by the map of starts, which ends with the block that the program has: this may be one that it lies
  // in.
  if (space::handle const h = walk_to(*in, address); h != space::none) blocks()[h].mark(space::exported);
}

void suballocator::withhold(space::handle h, free_order const& order) noexcept {
  count_back(h, order);
  lock held(mutex_);
  if (!has_ended(order.life)) keep_from_all(held, h, !order.in_order);
}

// A free without a stream waits for the work of its context natively, and here in the driver.
void suballocator::keep_from_all(lock& held, space::handle h, bool may_wait) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  blocks()[h].freed = home_.epochs.open();
  if (page_ == 0) exported_.add(blocks()[h].units);
  // Also of memory on which something is set that could not be undone.
  std::atomic_ref<bool>(home_.where.segments[blocks()[h].segment].pinned)
      .store(true, std::memory_order_relaxed);
  region_.put(h, space::withheld);
  backing_->release_withheld(held, may_wait);
}

// Where no two sizes are the same, too, what is withheld is a small part of all.
bool suballocator::is_to_be_exported(slow_request const& c) const noexcept {
  return exported_.has(c.units) || region_.withheld_bytes() > region_.reserved_bytes() / 16;
}

space::handle suballocator::take_apart(lock& held, slow_request& c) {
  GPUMEM_EXPECTS(held.owns_lock());
  if (!backing_->may_make_apart(c.units * space::unit)) return space::none;
  c.apart = true;
  space::handle h = space::none;
  try {
    h = grow(held, c);
    stats::add(count_device().rung_grown, 1);
  } catch (driver::allocation_failed const&) {
  }
  c.apart = false;
  return h;
}

}  // namespace gpumem::resource
