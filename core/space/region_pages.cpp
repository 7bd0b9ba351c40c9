// A region over a source of pages: holes in its segments are filled and punched. See region.hpp. Slow paths
// only, each beside a driver call of 50 us or more, so holes are a plain list.
#include <algorithm>
#include <limits>

#include "core/space/region.hpp"

namespace gpumem::space {

namespace {

constexpr std::uint64_t up(std::uint64_t units, std::uint32_t page) noexcept {
  return (units + page - 1) / page * page;
}

// Whole pages inside a block, as units.
struct whole {
  std::uint32_t front;
  std::uint32_t units;
};
whole whole_in(block const& b, std::uint32_t page) noexcept {
  std::uint64_t const begin = b.begin() / unit;
  std::uint64_t const first = up(begin, page);
  std::uint64_t const last = (begin + b.units) / page * page;
  if (last <= first) return {0, 0};
  return {static_cast<std::uint32_t>(first - begin), static_cast<std::uint32_t>(last - first)};
}

// Where a request of `units` lies best in a hole with idle neighbours: which pages it cannot do without, and
// how much of them, and of the neighbour, it leaves over.
struct fit {
  std::uint64_t needed = 0;
  std::uint64_t left_over = std::numeric_limits<std::uint64_t>::max();
  bool from_left = true;
};
fit fit_in(std::uint64_t left, std::uint64_t hole, std::uint64_t right, std::uint32_t units,
           std::uint32_t page) noexcept {
  if (left + hole + right < units) return {};
  std::uint64_t const behind_left = std::min(hole, up(units > left ? units - left : 1, page));
  std::uint64_t const before_right = std::min(hole, up(units > right ? units - right : 1, page));
  if (behind_left == hole && before_right == hole) return {hole, left + hole + right - units, true};
  auto const over = [&](std::uint64_t pages, std::uint64_t side) {
    return (pages == hole ? left + hole + right : side + pages) - units;
  };
  bool const from_left = right == 0 || over(behind_left, left) <= over(before_right, right);
  return {from_left ? behind_left : before_right,
          from_left ? over(behind_left, left) : over(before_right, right), from_left};
}

}  // namespace

bool region::add_range(std::uint64_t base, std::uint64_t bytes, std::uint64_t token) noexcept {
  handle const h = make_segment(base, bytes, token);
  if (h == none) return false;
  add_hole(h);
  return true;
}

void region::add_hole(handle h) noexcept {
  auto& table = blocks();
  auto const is_hole = [&](handle n) {
    return n != none && table[n].now.load(std::memory_order_relaxed) == state::hole;
  };
  if (handle const right = table[h].after; is_hole(right)) {
    drop_hole(right);
    h = absorb(h, right);
  }
  if (handle const left = table[h].before; is_hole(left)) {
    absorb(left, h);
    return;
  }
  table[h].now.store(state::hole, std::memory_order_relaxed);
  table[h].previous = none;
  table[h].next = holes_;
  if (holes_ != none) table[holes_].previous = h;
  holes_ = h;
}

void region::drop_hole(handle h) noexcept {
  block& b = blocks()[h];
  b.now.store(state::unused, std::memory_order_relaxed);
  (b.previous != none ? blocks()[b.previous].next : holes_) = b.next;
  if (b.next != none) blocks()[b.next].previous = b.previous;
}

// The place that leaves least over: remainders below a page are all that a full pool cannot use.
region::opening region::open(std::uint32_t units, std::uint32_t page, std::uint32_t wished) noexcept {
  auto& table = blocks();
  auto const idle_at = [&](handle n) -> std::uint64_t {
    bool const serves =
        n != none && table[n].now.load(std::memory_order_relaxed) == state::idle && table[n].where == done;
    return serves ? table[n].units : 0;
  };
  handle best = none;
  fit place;
  for (handle h = holes_; h != none; h = table[h].next) {
    fit const here = fit_in(idle_at(table[h].before), table[h].units, idle_at(table[h].after), units, page);
    if (here.needed == 0 || here.left_over > place.left_over) continue;
    if (here.left_over == place.left_over && table[h].units >= table[best].units) continue;
    best = h;
    place = here;
  }
  if (best == none) return {};
  std::uint64_t const hole = table[best].units;
  opening o{.needed = static_cast<std::uint32_t>(place.needed)};
  bool const from_left = place.from_left || place.needed == hole;
  std::uint64_t const taken =
      from_left ? std::min(hole, std::max(place.needed, up(wished, page))) : place.needed;
  drop_hole(best);
  handle body = best;
  if (!from_left) {
    body = split(best, static_cast<std::uint32_t>(hole - taken));
    add_hole(best);
  } else if (taken < hole) {
    handle const rest = split(best, static_cast<std::uint32_t>(taken));
    if (rest != none) {
      add_hole(rest);
    } else {
      add_hole(best);
      body = none;
    }
  }
  if (body == none) return {};
  auto const hold = [&](handle n) {
    detach(n);
    show(n, true);
    return n;
  };
  show(body, true);
  o.middle = body;
  if (idle_at(table[body].before) > 0) o.left = hold(table[body].before);
  if (idle_at(table[body].after) > 0) o.right = hold(table[body].after);
  return o;
}

bool region::shorten(opening const& o, std::uint32_t units) noexcept {
  if (blocks()[o.middle].units <= units) return true;
  handle const rest = split(o.middle, units);
  if (rest != none) add_hole(rest);
  return rest != none;
}

void region::fill(opening const& o) noexcept {
  reserved_bytes_ += blocks()[o.middle].bytes();
  if (o.left != none) put(o.left, done);
  if (o.right != none) put(o.right, done);
  put(o.middle, done);
}

void region::close(opening const& o) noexcept {
  if (o.left != none) put(o.left, done);
  if (o.right != none) put(o.right, done);
  add_hole(o.middle);
}

handle region::take_pages(std::uint32_t page, std::uint32_t most) noexcept {
  free_index* const idle = index(done, false);
  if (idle == nullptr || most < page) return none;
  handle const h =
      idle->find_if(blocks(), page, [&](handle n) { return whole_in(blocks()[n], page).units > 0; });
  if (h == none) return none;
  auto [front, units] = whole_in(blocks()[h], page);
  std::uint32_t const taken = std::min(units, most / page * page);
  // At the end, where growth goes on, unless the hole before it can become a larger one.
  handle const before = blocks()[h].before;
  bool const joins = front == 0 && before != none && blocks()[before].now.load() == state::hole;
  if (!joins) front += units - taken;
  handle const body = carve(h, front, taken);
  if (body != none) show(body, true);
  return body;
}

void region::punch(handle h) noexcept {
  reserved_bytes_ -= blocks()[h].bytes();
  add_hole(h);
}

std::uint64_t region::whole_pages(std::uint32_t page, std::uint64_t enough) noexcept {
  free_index* const idle = index(done, false);
  std::uint64_t found = 0;
  if (idle != nullptr) {
    idle->find_if(blocks(), page, [&](handle n) {
      found += whole_in(blocks()[n], page).units * unit;
      return found >= enough;
    });
  }
  return found;
}

}  // namespace gpumem::space
