// How a suballocator grows and shrinks over a source of pages. A request that found no room gets new pages
// right where they close a gap: in the hole that fits it best together with its idle neighbours, else behind
// the last page. At the maximum, or when the driver has no more, idle pages from anywhere are moved there, so
// that fragments never make memory unusable above the size of a page. The mutex is given up for driver calls;
// what they work on is live and hidden meanwhile.
#include <algorithm>
#include <cstdio>

#include "core/base/bytes.hpp"
#include "core/resource/suballocator.hpp"

namespace gpumem::resource {

namespace {

std::uint32_t as_units(std::uint64_t bytes) noexcept {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / space::unit, ~std::uint32_t{0}));
}

}  // namespace

void suballocator::prepare_pages() {
  demand const wish{.bytes = options_.initial};
  climber const c{.wish = wish, .units = rounded_units(options_.initial), .hidden = true, .waiting = {}};
  lock held(mutex_);
  region_.put(grow_in_pages(held, c, 0), space::done);
}

// Finds the place, claiming a new range of addresses when there is none. False: no host memory.
bool suballocator::open_place(lock& held, std::uint32_t needed, std::uint32_t wished,
                              space::region::opening& place) {
  std::uint32_t const page = as_units(pages_->page());
  place = region_.open(needed, page, wished);
  if (place.middle != space::none) return true;
  held.unlock();
  extent const range = pages_->claim(needed * space::unit);
  held.lock();
  if (!region_.add_range(range.address, range.bytes, range.token)) {
    held.unlock();
    upstream_.release(range, nullptr);
    held.lock();
    return false;
  }
  place = region_.open(needed, page, wished);
  return place.middle != space::none;
}

// Up to `bytes` of idle pages, to `to`; bytes moved.
std::uint64_t suballocator::move_pages(lock& held, std::uint64_t to, std::uint64_t bytes) noexcept {
  std::uint64_t moved = 0;
  while (moved < bytes) {
    space::handle const h = region_.take_pages(as_units(pages_->page()), as_units(bytes - moved));
    if (h == space::none) break;
    std::uint64_t const from = blocks()[h].begin();
    std::uint64_t const size = blocks()[h].bytes();
    held.unlock();
    page_source::outcome const result = pages_->move(from, to + moved, size);
    held.lock();
    if (result == page_source::outcome::refused) {
      region_.put(h, space::done);
      break;
    }
    region_.punch(h);
    if (result == page_source::outcome::gone) break;
    growing_ += size;  // no longer reserved where it was, not yet where it is
    moved += size;
  }
  return moved;
}

// Maps new pages within `budget`, then moves idle ones; bytes that are mapped from the begin of the place.
std::uint64_t suballocator::fill_place(lock& held, space::region::opening& place, std::uint64_t budget,
                                       CUresult& code) {
  std::uint64_t const needed = place.needed * space::unit;
  std::uint64_t const address = blocks()[place.middle].begin();
  std::uint64_t const fresh = std::min(blocks()[place.middle].bytes(), budget);
  std::uint64_t mapped = 0;
  if (fresh > 0) {
    growing_ += fresh;
    held.unlock();
    mapped = pages_->map(address, fresh, code);
    held.lock();
    growing_ -= fresh - mapped;
  }
  if (mapped >= needed) return mapped;
  std::uint64_t const missing = needed - mapped;
  if (region_.whole_pages(as_units(pages_->page()), missing) < missing) return mapped;
  return mapped + move_pages(held, address + mapped, missing);
}

space::handle suballocator::grow_in_pages(lock& held, climber const& c, std::uint64_t at_least) {
  std::uint64_t const page = pages_->page();
  std::uint64_t const room = c.room();
  std::uint64_t const taken = std::min(options_.maximum, region_.reserved_bytes() + growing_);
  std::uint64_t const budget = (options_.maximum - taken) / page * page;
  // Behind the last page there is nearly always room: what is needed is the request less its idle end.
  std::uint64_t const wished = std::min(growth_for(std::max(room, at_least)), budget);
  if (room > options_.maximum) {
    throw at_maximum(room);
  }
  stats::add(count().upstream, 1);
  space::region::opening place;
  if (!open_place(held, as_units(room), as_units(wished), place)) {
    throw refusal(driver::refused_by::host_memory, "no host memory for its tables");
  }
  CUresult code = CUDA_ERROR_OUT_OF_MEMORY;
  std::uint64_t const filled = fill_place(held, place, budget, code);
  growing_ -= filled;
  if (filled == 0 || !region_.shorten(place, as_units(filled))) {
    // Without a block for the rest of the hole; the driver's own refusals come before this.
    if (filled > 0) pages_->unmap(blocks()[place.middle].begin(), filled);
    region_.close(place);
    throw no_pages(room, budget < place.needed * space::unit, code);
  }
  region_.fill(place);
  if (filled < place.needed * space::unit) throw no_pages(room, budget < place.needed * space::unit, code);
  space::handle const h = search(c.wish, c.units, true, c.hidden);
  if (h == space::none) throw refusal(driver::refused_by::host_memory, "no host memory for its tables");
  return h;
}

driver::allocation_failed suballocator::no_pages(std::uint64_t asked, bool too_many,
                                                 CUresult code) const noexcept {
  if (too_many) return at_maximum(asked);
  char text[80];
  std::snprintf(text, sizeof text, "no pages for %.16s", base::print_bytes(asked).view().data());
  return driver::allocation_failed(code, "driver", text);
}

std::uint64_t suballocator::release_pages(lock& held, std::uint64_t keep_idle) noexcept {
  std::uint64_t const page = pages_->page();
  std::uint64_t released = 0;
  while (region_.idle_bytes() > keep_idle) {
    std::uint64_t const excess = (region_.idle_bytes() - keep_idle + page - 1) / page * page;
    space::handle const h = region_.take_pages(as_units(page), as_units(excess));
    if (h == space::none) break;
    std::uint64_t const size = blocks()[h].bytes();
    held.unlock();
    bool const gone = pages_->unmap(blocks()[h].begin(), size);
    held.lock();
    if (!gone) {
      region_.put(h, space::done);
      break;
    }
    region_.punch(h);
    released += size;
  }
  return released;
}

}  // namespace gpumem::resource
