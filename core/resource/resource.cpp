// See resource.hpp.
#include "core/resource/resource.hpp"

#include "core/base/mutant.hpp"
#include "core/base/threads/sleep.hpp"
#include "core/recording/writer/record.hpp"
#include "core/resource/in_hand.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::resource {

// Not in the class, where the compiler would guess at each call that they are what is called.
void resource::deallocate(space::handle, free_order const&) noexcept {}
void resource::freed(space::handle, free_order const&) noexcept {}

space::handle resource::walk_to(space::segment const& in, std::uint64_t address) noexcept {
  space::handle h = in.first;
  while (h != space::none && address >= blocks()[h].end()) h = blocks()[h].after;
  return h;
}

bool wait_for_address_reuse(chain_context const& home, std::uint64_t base, std::uint64_t bytes,
                            in_hand const* mine) noexcept {
  auto const is_anothers = [&](space::segment_owner& owner) {
    return &static_cast<resource&>(owner).home().epochs != &home.epochs;
  };
  auto const is_told_of = [&] {
    return !home.where.segments.any_owner(base, bytes, is_anothers) &&
           !in_hand::is_anothers(home.epochs, base, bytes, mine);
  };
  int i = 0;
  for (; i < 20'000 && !is_told_of(); ++i) base::sleep_for(50'000);
  bool const passed = (mine != nullptr && mine->was_passed()) || passing_free::is_under_way(base, bytes);
  for (; i < 20'000 && passing_free::is_under_way(base, bytes); ++i) base::sleep_for(50'000);
  return !passed;
}

// A free that another thread makes meanwhile is that thread's to count: one of both takes the block. Hence
// block by block, and not by a sum of what is out: a free that is under way would be in it as well.
void lose_blocks(resource& owner, space::segment const& in) noexcept {
  chain_context const& home = owner.home();
  auto& blocks = home.where.blocks;
  stats::shard& mine = stats::local();
  auto& counters = mine.devices[home.device_slot];
  for (space::handle h = in.first; h != space::none; h = blocks[h].after) {
    space::block& b = blocks[h];
    auto expected = space::state::live;
    std::uint32_t const holder = b.holder;
    if (!b.is(space::mapped)) continue;
    bool const is_taken = b.now.compare_exchange_strong(expected, space::state::cached);
    if (!is_taken && (expected != space::state::cached || !GPUMEM_MUTANT(freed_is_lost_as_well))) continue;
    for (resource* r = &owner; r != nullptr; r = r->parent(h)) r->lost(h);
    // What the program set on it went with it: nobody is to find it where the next context has that memory.
    if (!GPUMEM_MUTANT(set_on_lost_blocks)) b.unmark(space::altered);
    if (b.is(space::pooled) && home.lost_to_pool != nullptr) home.lost_to_pool(b, h);
    if (b.is(space::sampled)) {
      home.where.sampled_ones.gave(b, h);
      recording::note_if_on({.address = b.begin(),
                             .what = recording::action::lost,
                             .device = static_cast<std::uint8_t>(home.device)});
    }
    if (home.kind == driver::memory_kind::host || GPUMEM_MUTANT(lost_still_held)) continue;
    stats::add(counters.lost_blocks, 1);
    stats::add(counters.lost_requested, b.bytes() - b.rounding);
    stats::add(counters.lost_handed, b.bytes());
    stats::add(stats::holder_at(mine, holder).freed, b.bytes() - b.rounding);
  }
}

void note_change(int device) noexcept {
  reserved_changed = true;
  stats::settle_soon(stats::local().devices[stats::device_slot(device)]);
}

void note_reserved(chain_context const& home, std::uint64_t address, std::uint64_t bytes,
                   lies where) noexcept {
  recording::note_segment(true, home.device, address, bytes);
  stats::gauge_add(stats::gauges(home.device).growths, 1);
  note_kept(home.device, bytes, where);
}

void note_kept(int device, std::uint64_t bytes, lies where) noexcept {
  auto& gauges = stats::gauges(device);
  stats::gauge_add(gauges.reserved, bytes);
  if (where == lies::anywhere) stats::gauge_add(gauges.movable, bytes);
  stats::gauge_add(gauges.segments, 1);
  note_change(device);
}

void note_released(int device, std::uint64_t bytes, lies where) noexcept {
  auto& gauges = stats::gauges(device);
  stats::gauge_subtract(gauges.reserved, bytes);
  if (where == lies::anywhere) stats::gauge_subtract(gauges.movable, bytes);
  stats::gauge_subtract(gauges.segments, 1);
  note_change(device);
}

}  // namespace gpumem::resource
