// How a suballocator grows and shrinks over a source of pages. New memory goes where it closes a gap: into
// the hole that fits best together with its idle neighbours, else behind the last page. It comes in few
// pieces of many pages (the driver takes as long for 2 MiB as for 256 MiB), all inside that one block, so
// that its free makes them idle whole. At the maximum, when memory is short, or when the driver has no
// more, idle pieces from anywhere go back for new ones here. The mutex is released for driver calls; what
// they work on is live and hidden.
#include <algorithm>
#include <cstdio>
#include <new>
#include <vector>

#include "core/base/contract.hpp"
#include "core/base/text/bytes.hpp"
#include "core/resource/pools/suballocator.hpp"

namespace gpumem::resource {

namespace {

std::uint32_t as_units(std::uint64_t bytes) noexcept {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / space::unit, ~std::uint32_t{0}));
}

// From this size on a request gets just its own pieces; a smaller one comes with pages for the next ones.
constexpr std::uint64_t large_request = 32ull << 20;

// `own` bytes that no other block will lie in, in as few pieces as may be, largest first; then page by page.
// None: no host memory.
std::vector<std::uint64_t> pieces_for(std::uint64_t own, std::uint64_t all, std::uint64_t page,
                                      std::uint64_t largest) noexcept try {
  std::vector<std::uint64_t> pieces;
  while (own > 0) {
    pieces.push_back(std::min(largest, own));
    own -= pieces.back();
    all -= pieces.back();
  }
  pieces.insert(pieces.end(), all / page, page);
  return pieces;
} catch (std::bad_alloc const&) {
  return {};
}

}  // namespace

// Page by page: everything will be cut from it.
void suballocator::prepare_pages() {
  allocation_request const request{.bytes = options_.initial};
  slow_request c{.request = request, .units = rounded_units(options_.initial), .hidden = true, .waiting = {}};
  lock held(mutex_);
  region_.put(grow_in_pages(held, c, 0, pages_->page()), space::done);
}

// Far below its bounds a pool has no need of them.
bool suballocator::keeps_pieces_whole(std::uint64_t bytes) const noexcept {
  return pages_ != nullptr &&
         region_.reserved_bytes() + bytes > std::min(options_.sparing_beyond, options_.maximum) / 2;
}

std::uint64_t suballocator::budget() const noexcept {
  std::uint64_t const taken = std::min(options_.maximum, region_.reserved_bytes() + growing_);
  return (options_.maximum - taken) / pages_->page() * pages_->page();
}

// Finds the place, claiming a new range of addresses when there is none. False: no host memory.
bool suballocator::open_place(lock& held, std::uint32_t needed, std::uint32_t wished, bool whole,
                              space::region::opening& place) {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint32_t const page = as_units(pages_->page());
  place = region_.open(needed, page, wished, whole);
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
  place = region_.open(needed, page, wished, whole);
  return place.middle != space::none;
}

// Gives back idle pieces of `wanted` bytes or a little more, where there are so many; bytes.
std::uint64_t suballocator::release_whole(lock& held, std::uint64_t wanted) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint32_t const page = as_units(pages_->page());
  std::uint64_t released = 0;
  while (released < wanted) {
    space::handle const h = region_.take_pages(page, as_units(wanted - released));
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

// Room for so many bytes below the maximum, by giving back idle pieces where it is short.
bool suballocator::make_room(lock& held, std::uint64_t bytes) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  for (std::uint64_t left = budget(); left < bytes; left = budget()) {
    std::uint64_t const missing = bytes - left;
    if (region_.whole_pages(as_units(pages_->page()), missing) < missing) return false;
    if (release_whole(held, missing) == 0) return false;
  }
  return true;
}

// Maps what the place needs, and what it is larger while the maximum allows. Where the driver has less,
// smaller pieces, then what idle ones give. Bytes that are mapped from the begin of the place.
std::uint64_t suballocator::fill_place(lock& held, space::region::opening const& place,
                                       std::uint64_t largest_piece, CUresult& code) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint64_t const page = pages_->page();
  std::uint64_t const needed = place.needed * space::unit;
  std::uint64_t const own = place.own * space::unit;
  std::uint64_t const address = blocks()[place.middle].begin();
  std::uint64_t wanted = std::min(blocks()[place.middle].bytes(), std::max(needed, budget()));
  std::uint64_t mapped = 0;
  std::uint64_t piece = largest_piece;
  for (bool released = false;;) {
    auto const pieces = pieces_for(std::max(own, mapped) - mapped, wanted - mapped, page, piece);
    if (pieces.empty() || !region_.lay(address + mapped, as_units(page), pieces)) break;
    std::uint64_t const fresh = wanted - mapped;
    growing_ += fresh;
    held.unlock();
    std::uint64_t const made = pages_->map(address + mapped, pieces, code);
    held.lock();
    growing_ -= fresh - made;
    mapped += made;
    wanted = needed;
    if (mapped >= needed || code != CUDA_ERROR_OUT_OF_MEMORY) break;
    if (piece > page) {
      piece = std::max(page, piece / 8);
      continue;
    }
    std::uint64_t const missing = needed - mapped;
    if (released || region_.whole_pages(as_units(page), missing) < missing) break;
    if (release_whole(held, missing) < missing || budget() < missing) break;  // others may have taken it
    released = true;
    piece = largest_piece;
  }
  return mapped;
}

space::handle suballocator::grow_in_pages(lock& held, slow_request& c, std::uint64_t at_least,
                                          std::uint64_t largest_piece) {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint64_t const room = c.room();
  if (room > options_.maximum) throw at_maximum(room);
  bool const sparing = c.would_split_piece || would_exceed(room);
  std::uint64_t more =
      options_.growth != 0
          ? options_.growth
          : std::min(policy().step(0, region_.reserved_bytes(), home_.epochs.capturing()), large_request);
  if (sparing || (options_.growth == 0 && room >= large_request)) more = 0;
  std::uint64_t const wished = std::max(more, at_least);
  stats::add(count().upstream, 1);
  // Before a place is sought: what the request found, but must not cut, should not be held for it.
  if (sparing) release_whole(held, room);
  space::region::opening place;
  if (!open_place(held, as_units(room), as_units(wished), keeps_pieces_whole(room), place)) {
    throw refusal(driver::refused_by::tables, "no host memory for its tables");
  }
  std::uint64_t const needed = place.needed * space::unit;
  if (!make_room(held, needed)) {
    region_.close(place);
    throw at_maximum(room);
  }
  CUresult code = CUDA_ERROR_OUT_OF_MEMORY;
  std::uint64_t const filled = fill_place(held, place, largest_piece, code);
  growing_ -= filled;
  if (filled == 0 || !region_.shorten(place, as_units(filled))) {
    // Without a block for the rest of the hole; the driver's own refusals come before this.
    if (filled > 0) pages_->unmap(blocks()[place.middle].begin(), filled);
    region_.close(place);
    throw no_pages(room, code);
  }
  space::handle const made = region_.fill(place);
  if (filled < needed) throw no_pages(room, code);
  space::handle const h = region_.take_from(made, place.front, c.units, c.hidden, c.request.alignment);
  if (h == space::none) throw refusal(driver::refused_by::tables, "no host memory for its tables");
  return h;
}

driver::allocation_failed suballocator::no_pages(std::uint64_t asked, CUresult code) const noexcept {
  char text[80];
  std::snprintf(text, sizeof text, "no pages for %.16s", base::print_bytes(asked).view().data());
  return driver::allocation_failed(code, "driver", text);
}

std::uint64_t suballocator::release_pages(lock& held, std::uint64_t keep_idle) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint64_t const idle = region_.idle_bytes();
  return idle > keep_idle ? release_whole(held, idle - keep_idle) : 0;
}

}  // namespace gpumem::resource
