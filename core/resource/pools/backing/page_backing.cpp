// See page_backing.hpp.
#include "core/resource/pools/backing/page_backing.hpp"

#include <algorithm>
#include <new>
#include <vector>

#include "core/resource/free_duties.hpp"

namespace gpumem::resource {

namespace {

constexpr std::uint64_t most_of_a_piece = 256ull << 20;
// From this size on a request gets just its own pieces; a smaller one comes with pages for the next ones.
constexpr std::uint64_t large_request = 32ull << 20;

std::uint32_t as_units(std::uint64_t bytes) noexcept {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / space::unit, ~std::uint32_t{0}));
}

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
void page_backing::prepare(pool_lock& held) {
  GPUMEM_EXPECTS(held.owns_lock());
  growth_request const all{.units = as_units(pool_.options.initial), .hidden = true};
  pool_.region.put(grow_in_pieces(held, all, pages_.page()), space::done);
}

space::handle page_backing::grow(pool_lock& held, growth_request const& wanted) {
  return grow_in_pieces(held, wanted, most_of_a_piece);
}

std::uint64_t page_backing::left() const noexcept {
  std::uint64_t const most = pool_.options.maximum;
  return (most - std::min(most, taken())) / pages_.page() * pages_.page();
}

// After each time without the mutex: whoever ended the context took all segments and blocks of the region,
// and `held` protects nothing that was known before.
void page_backing::expect_context(std::uint32_t life) const {
  if (pool_.home.epochs.ended_since(life)) throw pool_.refuse.no_context();
}

bool page_backing::open_place(pool_lock& held, std::uint32_t needed, std::uint32_t wished, bool whole,
                              space::region::opening& place) {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint32_t const page = as_units(pages_.page());
  place = pool_.region.open(needed, page, wished, whole);
  if (place.middle != space::none) return true;
  extent range;
  std::uint32_t const life = pool_.home.epochs.life();
  {
    unlocked const meanwhile(held);
    range = pages_.claim(needed * space::unit);
  }
  if (pool_.home.epochs.ended_since(life)) {
    hand_back(held, range);
    throw pool_.refuse.no_context();
  }
  if (!pool_.region.add_range(range.address, range.bytes, range.token)) {
    hand_back(held, range);
    return false;
  }
  place = pool_.region.open(needed, page, wished, whole);
  return place.middle != space::none;
}

std::uint64_t page_backing::release_next(pool_lock& held, std::uint64_t wanted) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint32_t const life = pool_.home.epochs.life();
  space::handle const h = pool_.region.take_pages(as_units(pages_.page()), as_units(wanted));
  if (h == space::none) return 0;
  std::uint64_t const at = pool_.home.where.blocks[h].begin(), size = pool_.home.where.blocks[h].bytes();
  bool gone = false;
  going_ += size;
  {
    unlocked const meanwhile(held);
    gone = pages_.unmap(at, size, life);
  }
  going_ -= size;
  if (pool_.home.epochs.ended_since(life)) return 0;  // the block went with the region
  if (!gone) {
    pool_.region.put(h, space::done);
    return 0;
  }
  pool_.region.punch(h);
  return size;
}

std::uint64_t page_backing::release_pieces(pool_lock& held, std::uint64_t wanted) noexcept {
  std::uint64_t released = 0;
  while (released < wanted) {
    std::uint64_t const bytes = release_next(held, wanted - released);
    if (bytes == 0) break;
    released += bytes;
  }
  return released;
}

bool page_backing::make_room(pool_lock& held, std::uint64_t bytes) {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint32_t const life = pool_.home.epochs.life();
  for (std::uint64_t fits = left(); fits < bytes; fits = left()) {
    std::uint64_t const missing = bytes - fits;
    if (pool_.region.whole_pages(as_units(pages_.page()), missing) < missing) return false;
    std::uint64_t const released = release_pieces(held, missing);
    expect_context(life);
    if (released == 0) return false;
  }
  return true;
}

// What the device has no room for takes no part of it meanwhile: others may need what there is.
bool page_backing::is_lacking(pool_lock& held, std::uint64_t needed) {
  GPUMEM_EXPECTS(held.owns_lock());
  if (needed < large_request) return false;
  std::uint32_t const life = pool_.home.epochs.life();
  std::uint64_t const idle = pool_.region.whole_pages(as_units(pages_.page()), needed);
  bool lacking = false;
  {
    unlocked const meanwhile(held);
    lacking = idle < needed && pages_.lacks(needed - idle);
  }
  expect_context(life);
  return lacking;
}

// Where the driver has less, smaller pieces, then what idle ones give. With room below the maximum for what
// the place needs, as of this very hold of the mutex.
std::uint64_t page_backing::fill_place(pool_lock& held, space::region::opening const& place,
                                       std::uint64_t largest_piece, CUresult& code) {
  GPUMEM_EXPECTS(held.owns_lock());
  space::block const& middle = pool_.home.where.blocks[place.middle];
  std::uint64_t const page = pages_.page();
  std::uint64_t const needed = place.needed * space::unit;
  std::uint64_t const own = place.own * space::unit;
  std::uint64_t const address = middle.begin();
  std::uint64_t wanted = std::min(middle.bytes(), std::max(needed, left()));
  std::uint64_t mapped = 0;
  std::uint64_t piece = largest_piece;
  std::uint32_t const life = pool_.home.epochs.life();
  auto const expect_still = [&] {
    if (!pool_.home.epochs.ended_since(life)) return;
    growing_ -= mapped;
    throw pool_.refuse.no_context();
  };
  for (bool released = false;;) {
    auto const pieces = pieces_for(std::max(own, mapped) - mapped, wanted - mapped, page, piece);
    if (pieces.empty() || !pool_.region.lay(address + mapped, as_units(page), pieces)) break;
    std::uint64_t const fresh = wanted - mapped;
    growing_ += fresh;
    std::uint64_t made = 0;
    {
      unlocked const meanwhile(held);
      made = pages_.map(address + mapped, pieces, life, code);
    }
    growing_ -= fresh - made;
    mapped += made;
    expect_still();
    wanted = needed;
    if (mapped >= needed || code != CUDA_ERROR_OUT_OF_MEMORY) break;
    if (piece > page) {
      piece = std::max(page, piece / 8);
      continue;
    }
    std::uint64_t const missing = needed - mapped;
    if (released || pool_.region.whole_pages(as_units(page), missing) < missing) break;
    bool const enough = release_pieces(held, missing) >= missing;
    expect_still();
    if (!enough || left() < missing) break;  // others may have taken it
    released = true;
    piece = largest_piece;
  }
  return mapped;
}

space::handle page_backing::grow_in_pieces(pool_lock& held, growth_request const& wanted,
                                           std::uint64_t largest_piece) {
  GPUMEM_EXPECTS(held.owns_lock());
  space::region& region = pool_.region;
  std::uint64_t const room = wanted.room(), reserved = region.reserved_bytes();
  std::uint32_t const life = pool_.home.epochs.life();
  if (room > pool_.options.maximum) throw pool_.refuse.at_maximum(reserved, room);
  bool const sparing = wanted.for_whole_piece || would_exceed(room);
  std::uint64_t more = pool_.options.growth;
  if (more == 0) more = std::min(policy().step(0, reserved, pool_.home.epochs.capturing()), large_request);
  if (sparing || (pool_.options.growth == 0 && room >= large_request)) more = 0;
  std::uint64_t const wished = std::max(more, wanted.at_least);
  count_growth();
  // Before a place is sought: what the request found, but must not cut, should not be held for it.
  bool const at_bound = would_exceed(room);
  if (sparing && !(at_bound && ahead.take_room(room))) {
    std::uint64_t const gone = release_pieces(held, room);
    if (at_bound) ahead.note_late(gone, reserved);
  }
  expect_context(life);
  bool const whole = policy().keeps_pieces_whole(region.reserved_bytes(), room);
  space::region::opening place;
  if (!open_place(held, as_units(room), as_units(wished), whole, place)) throw pool_.refuse.no_tables();
  std::uint64_t const needed = place.needed * space::unit;
  bool has_room = make_room(held, needed);
  bool const lacking = has_room && is_lacking(held, needed);
  // While the driver was asked others may have taken the room.
  has_room = has_room && (lacking || make_room(held, needed));
  if (!has_room) {
    region.close(place);
    throw pool_.refuse.at_maximum(region.reserved_bytes(), room);
  }
  CUresult code = CUDA_ERROR_OUT_OF_MEMORY;
  std::uint64_t const filled = lacking ? 0 : fill_place(held, place, largest_piece, code);
  growing_ -= filled;
  if (filled == 0 || !region.shorten(place, as_units(filled))) {
    // Without a block for the rest of the hole; the driver's own refusals come before this.
    if (filled > 0) {
      std::uint64_t const at = pool_.home.where.blocks[place.middle].begin();
      unlocked const meanwhile(held);
      pages_.unmap(at, filled, life);
    }
    expect_context(life);
    region.close(place);
    throw pool_.refuse.no_pages(room, code);
  }
  space::handle const made = region.fill(place);
  if (wanted.at_least != 0) rotated_ += filled;  // for good: pages do not tell what they were taken for
  if (filled < needed) throw pool_.refuse.no_pages(room, code);
  space::handle const h = region.take_from(made, place.front, wanted.units, wanted.hidden, wanted.alignment);
  if (h == space::none) throw pool_.refuse.no_tables();
  return h;
}

std::uint64_t page_backing::due_bytes(due_memory const& due) const noexcept {
  suballocator_options const& o = pool_.options;
  std::uint64_t const idle = std::min(due.idle_throughout, pool_.region.idle_bytes());
  std::uint64_t const reserved = stays();
  std::uint64_t const most =
      std::min(idle - std::min(idle, o.kept_idle), reserved - std::min(reserved, o.initial));
  return most / pages_.page() * pages_.page();
}

bool page_backing::release_due(pool_lock& held, due_memory const& due, going_back&) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  auto& node = stats::local().nodes[pool_.node];
  for (std::uint64_t left = due_bytes(due); left > 0;) {
    if (base::now_ns() >= due.until || !may_give_back()) return false;
    std::uint64_t const bytes = release_next(held, std::min(left, most_of_a_piece));
    if (bytes == 0) break;  // the rest lies between blocks
    stats::add(node.aged, bytes);
    left = std::min(left - std::min(left, bytes), due_bytes(due));  // others took some, or gave it back
  }
  return true;
}

// The driver waits for nothing when it unmaps.
std::uint64_t page_backing::release_empty(pool_lock& held, std::uint64_t keep_idle, bool) noexcept {
  std::uint64_t released = 0;
  for (std::uint64_t idle = pool_.region.idle_bytes(); idle > keep_idle; idle = pool_.region.idle_bytes()) {
    std::uint64_t const bytes = release_next(held, idle - keep_idle);
    if (bytes == 0) break;
    released += bytes;
  }
  return released;
}

}  // namespace gpumem::resource
