// Which idle block of a suballocator's region serves a request: by how far the pool is from its bounds,
// whether memory is scarce, and how many share it. Called by the rungs (allocate_slow.cpp), under the mutex.
// Makes no call.
#include <algorithm>

#include "core/base/mutant.hpp"
#include "core/resource/pools/suballocator.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::resource {

space::handle suballocator::search(slow_request& c, bool thorough) noexcept {
  space::handle const h = find(c, thorough);
  if (h != space::none) age_.floor.note(region_.idle_bytes());
  return h;
}

// Bytes that the pool may ever have: of a device less what others have, as told at the last growth.
std::uint64_t suballocator::all_there_is() const noexcept {
  std::uint64_t const to_limit = upstream_.left_to_limit(), reserved = region_.reserved_bytes();
  std::uint64_t const most = std::min(options_.maximum, reserved + std::min(to_limit, ~reserved));
  stats::device_gauges& device = stats::gauges(home_.device);
  std::uint64_t const total = stats::get(device.total);
  if (home_.kind != driver::memory_kind::device || total == 0) return most;
  std::uint64_t const used = stats::get(device.used), known = stats::get(device.used_known);
  std::uint64_t const others = used - std::min(used, known) + stats::get(device.observed);
  return std::min(most, total - std::min(total, others));
}

// Over segments, where nothing says how the pool is to grow. Not where parts share it: what one has idle is
// to serve another.
void suballocator::note_scarcity() noexcept {
  if (page_ == 0 && options_.growth == 0 && options_.round_to == space::unit && !options_.one_magazine &&
      parts() == 0)
    scarcity_.note_growth(in_use(), all_there_is());
}

space::handle suballocator::find_by_itself(slow_request const& c) noexcept {
  std::uint32_t const left = scarcity_.left_over(c.units, in_use() + c.units * space::unit);
  auto const from = [&](space::free_list_id list) {
    return region_.take_by_itself(list, c.units, left, growth_policy::of_small, c.hidden,
                                  c.request.alignment);
  };
  space::handle h = space::none;
  if (c.request.slot != stream_order::no_slot) h = from(free_list_of(c.request.slot));
  if (h == space::none) h = from(space::done);
  if (h != space::none) return h;
  bool const in_order = runs_in_one_order(c.request.slot) || GPUMEM_MUTANT(by_itself_unfinished);
  return in_order ? from(space::pending) : space::none;
}

// What is left of a piece can be a part of another block's place, which is what fills a pool to its maximum,
// or a device: until then it saves calls of the driver.
std::uint32_t suballocator::left_over(slow_request const& c) const noexcept {
  if (region_.reserved_bytes() >= all_there_is() / 2) return 0;
  return policy().left_over(c.units, page_, is_of_many(), c.request.slot != stream_order::no_slot);
}

// Where large blocks come and go a small one between them, which stays, keeps a segment from serving the next
// large one. Where memory is spared segment_mixing says when that matters.
bool suballocator::keeps_kinds_apart(slow_request const& c) const noexcept {
  if (page_ != 0 || sharing_.load(std::memory_order_relaxed) || would_exceed(c.units * space::unit))
    return false;
  return is_of_many() && policy().keeps_kinds_apart(region_.reserved_bytes(), region_.admitting_bytes());
}

space::handle suballocator::find(slow_request& c, bool thorough) noexcept {
  allocation_request const& request = c.request;
  c.would_split_piece = false;
  bool const scarce =
      is_scarce(c.units * space::unit) || GPUMEM_MUTANT(always_scarce) || GPUMEM_MUTANT(by_itself_unfinished);
  if (!thorough && scarce) [[unlikely]]
    return find_by_itself(c);
  if (request.slot != stream_order::no_slot) {
    auto const own = static_cast<space::free_list_id>(space::first_stream + request.slot);
    auto h = page_ == 0 ? region_.take_tighter(own, c.units, thorough, c.hidden, request.alignment)
                        : region_.take(own, c.units, thorough, c.hidden, request.alignment);
    if (h == space::none && GPUMEM_MUTANT(tighter_unfinished)) h = region_.take_unfinished(own, c.units);
    if (h != space::none) return h;
  }
  bool const apart = mixing_.is_avoided() && !thorough && would_exceed(c.units * space::unit);
  bool const whole =
      page_ != 0 && !thorough && policy().keeps_pieces_whole(region_.reserved_bytes(), c.units * space::unit);
  if (!apart && !whole && !thorough && keeps_kinds_apart(c)) {
    bool overlooked = false;
    auto const h = region_.take_admitted(c.units, c.hidden, request.alignment, overlooked);
    if (h != space::none || !overlooked) return h;
  }
  auto const h = apart   ? region_.take_in_proportion(c.units, c.hidden, request.alignment)
                 : whole ? region_.take_whole(c.units, page_, left_over(c), c.hidden, request.alignment,
                                              c.would_split_piece)
                         : region_.take(space::done, c.units, thorough, c.hidden, request.alignment);
  if (h != space::none || !runs_in_one_order(request.slot)) return h;
  return region_.take(space::pending, c.units, thorough, c.hidden, request.alignment);
}

}  // namespace gpumem::resource
