// See guard.hpp.
#include "core/resource/adaptors/guard.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/mutant.hpp"
#include "core/base/threads/backoff.hpp"
#include "core/driver/error.hpp"
#include "core/driver/question.hpp"
#include "core/stats/callers/misuse.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::resource {

namespace {

// Whether work for this memory can be put on the stream it is ordered by. Not on the legacy stream: work on
// it would be drawn into, and invalidate, a capture that begins meanwhile.
bool has_stream(stream_order::slot slot, CUstream stream) noexcept {
  return slot != stream_order::no_slot && stream != CU_STREAM_LEGACY;
}

}  // namespace

space::handle guard::serve(allocation_request const& request) {
  allocation_request more = request;
  more.bytes = request.bytes + std::min(options_.redzone, ~request.bytes);
  guarded block{.bytes = request.bytes, .life = home_.epochs.life()};
  space::handle const h = pass_down(more);
  if (void const* const from = request.caller(); from != nullptr)
    block.from = stats::site_of(node_, {&from, 1});
  if (prepare(h, request, block)) {
    base::lock_guard lock(mutex_);
    // Its context may have ended since, and forget() been here: the handle is nobody's, or another block's.
    if (home_.epochs.ended_since(block.life) && !GPUMEM_MUTANT(guard_of_another_life)) return h;
    try {
      live_.insert_or_assign(h, block);
    } catch (std::bad_alloc const&) {  // it goes unchecked
    }
  }
  return h;
}

std::uint64_t guard::end_of_zone(space::handle h, std::uint64_t end) noexcept {
  std::uint64_t const asked = end + options_.redzone;
  for (resource const* below = &owner_of(home_.where, h); below != this && below != nullptr;
       below = below->parent(h)) {
    if (below->has_zones()) return asked;
  }
  return std::min(blocks()[h].end(), (asked + space::unit - 1) / space::unit * space::unit);
}

// Fills the block and its zone, so that both are there before its first use. False: it cannot be done now.
bool guard::prepare(space::handle h, allocation_request const& request, guarded& block) noexcept {
  if (home_.epochs.capturing()) return false;
  stream_order::relaxed_mode relaxed(true);
  auto const here = home_.epochs.enter();
  // Whoever comes after the context has ended would write into the next one's.
  if (!here.is_there() || has_ended(block.life)) return false;
  std::uint64_t const begin = blocks()[h].begin();
  std::uint64_t const end = begin + block.bytes;
  std::uint64_t const zone_end = end_of_zone(h, end);
  if (options_.redzone != 0) block.zone = zone_end - end;
  bool const ordered = has_stream(request.slot, request.stream);
  // Memory of the legacy stream may still be in use by its earlier work.
  if (request.slot != stream_order::no_slot && !ordered && home_.epochs.synchronize() != CUDA_SUCCESS)
    return false;
  CUstream const on = ordered ? request.stream : own_stream();
  if (!ordered && on == nullptr) return false;
  bool good = !options_.fill_on_alloc || fill(on, begin, block.bytes, new_pattern);
  good = good && (block.zone == 0 || fill(on, end, block.zone, zone_pattern));
  if (!ordered) good = wait_for_fill(on) && good;
  block.filled = ordered ? home_.epochs.open() : home_.epochs.last_done();
  return good;
}

bool guard::fill(CUstream on, std::uint64_t address, std::uint64_t bytes, unsigned char pattern) noexcept {
  return driver::real.cuMemsetD8Async(address, pattern, bytes, on) == CUDA_SUCCESS;
}

// Before anybody uses the block: by any way there is.
bool guard::wait_for_fill(CUstream on) noexcept {
  return driver::asked(driver::real.cuStreamSynchronize, on) == CUDA_SUCCESS ||
         home_.epochs.wait(home_.epochs.open());
}

// Waits for everything that may use a block freed in this way.
bool guard::settle(free_order const& order) noexcept {
  if (home_.epochs.capturing()) return false;
  if (order.settled) return true;
  if (!has_stream(order.slot, order.stream)) {
    if (home_.epochs.synchronize() != CUDA_SUCCESS) return false;
    return !home_.epochs.awaits_others() || home_.epochs.wait(home_.epochs.open());
  }
  return driver::asked(driver::real.cuStreamSynchronize, order.stream) == CUDA_SUCCESS;
}

void guard::given_back(space::handle h, free_order const& order) noexcept {
  if (!is_known(h)) return;
  stream_order::relaxed_mode relaxed(true);
  auto const here = home_.epochs.enter();
  bool const settled = here.is_there() && !has_ended(order.life) && settle(order);
  guarded block;
  if (settled) {
    base::lock_guard const in_use(looking_);  // not beside a look of another thread's at this block
    look(h, order.caller());
    block = take(h, order.life);
  } else {
    take_unchecked(h, order.life);
  }
  // What another process may have open is left alone.
  if (!settled || !options_.fill_on_free || blocks()[h].is(space::exported)) return;
  bool const ordered = has_stream(order.slot, order.stream);
  CUstream const on = ordered ? order.stream : own_stream();
  if (!ordered && on == nullptr) return;
  for (resource* above = parent(h); above != nullptr; above = above->parent(h))
    above->before_overwrite(h, order);
  fill(on, blocks()[h].begin(), block.bytes, freed_pattern);
  if (!ordered) wait_for_fill(on);
}

// The zone lies in what a guard below fills; that one has waited for the work that may use the block.
void guard::before_overwrite(space::handle h, free_order const& order) noexcept {
  base::lock_guard const in_use(looking_);
  if (has_ended(order.life)) return;
  look(h, order.caller());
  take(h, order.life);
}

void guard::synchronized() noexcept {
  if (options_.redzone == 0 || home_.epochs.capturing()) return;
  stream_order::relaxed_mode relaxed(true);
  auto const here = home_.epochs.enter();
  if (!here.is_there()) return;
  base::lock_guard const in_use(looking_);  // none of these blocks is given back meanwhile
  for (space::handle const h : filled_ones()) look(h, nullptr);
}

// Asked inside the context, whose end waits for whoever entered it: it is not the next one.
bool guard::has_ended(std::uint32_t life) const noexcept {
  return home_.epochs.ended_since(life) && !GPUMEM_MUTANT(guard_of_another_life);
}

bool guard::is_known(space::handle h) noexcept {
  base::lock_guard const held(mutex_);
  return live_.contains(h);
}

// Another thread may have made a block since the wait that this look follows: its zone is being filled.
std::vector<space::handle> guard::filled_ones() noexcept try {
  base::lock_guard const held(mutex_);
  std::vector<space::handle> all;
  all.reserve(live_.size());
  for (auto const& [h, block] : live_) {
    if (home_.epochs.is_done(block.filled)) all.push_back(h);
  }
  return all;
} catch (std::bad_alloc const&) {
  return {};
}

// In a capture, or in a host function, where no driver call is allowed. A look of another thread's at this
// block ends soon, unless it waits for the GPU and the GPU for this host function.
void guard::take_unchecked(space::handle h, std::uint32_t life) noexcept {
  constexpr std::uint64_t patience_ns = 20'000'000;
  std::uint64_t const give_up = base::now_ns() + patience_ns;
  bool alone = false;
  base::wait_until([&] { return (alone = looking_.try_lock()) || base::now_ns() >= give_up; });
  take(h, life);
  if (alone) looking_.unlock();
}

guard::guarded guard::take(space::handle h, std::uint32_t life) noexcept {
  base::lock_guard const held(mutex_);
  auto const found = live_.find(h);
  if (found == live_.end()) return {};
  // A free of the context before, which was late: it is another block's by now.
  if (found->second.life != life && !GPUMEM_MUTANT(guard_of_another_life)) return {};
  guarded const block = found->second;
  live_.erase(found);
  return block;
}

// Once a block: after the first report its zone tells nothing new.
void guard::look(space::handle h, void const* caller) noexcept {
  guarded block;
  {
    base::lock_guard const held(mutex_);
    auto const found = live_.find(h);
    if (found == live_.end()) return;
    block = found->second;
  }
  if (block.zone == 0 || block.reported) return;
  std::uint64_t const begin = blocks()[h].begin();
  damage const found = look_at_zone(begin + block.bytes, block.zone);
  if (found.bytes == 0 || !report_once(h)) return;
  stats::note_misuse({.kind = stats::misuse_kind::damaged_zone,
                      .node = node_,
                      .address = begin,
                      .bytes = block.bytes,
                      .offset = block.bytes + found.first,
                      .damaged = found.bytes,
                      .here = caller != nullptr ? stats::site_of(node_, {&caller, 1}) : stats::no_site,
                      .allocated_at = block.from});
}

// Not of a block that a host function has freed meanwhile.
bool guard::report_once(space::handle h) noexcept {
  base::lock_guard const held(mutex_);
  auto const found = live_.find(h);
  return found != live_.end() && !std::exchange(found->second.reported, true);
}

guard::damage guard::look_at_zone(std::uint64_t address, std::uint64_t bytes) noexcept {
  damage found;
  CUstream const on = own_stream();
  if (on == nullptr) return found;
  std::array<unsigned char, 4096> copy;
  for (std::uint64_t at = 0; at < bytes; at += copy.size()) {
    std::uint64_t const part = std::min<std::uint64_t>(copy.size(), bytes - at);
    if (driver::real.cuMemcpyDtoHAsync_v2(copy.data(), address + at, part, on) != CUDA_SUCCESS ||
        !wait_for_fill(on))
      return found;
    for (std::uint64_t i = 0; i < part; ++i) {
      if (copy[i] == zone_pattern) continue;
      if (found.bytes++ == 0) found.first = at + i;
    }
  }
  return found;
}

CUstream guard::own_stream() noexcept {
  if (CUstream const made = own_.load(std::memory_order_acquire); made != nullptr) return made;
  CUstream fresh = nullptr;
  if (driver::real.cuStreamCreate(&fresh, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return nullptr;
  CUstream expected = nullptr;  // of two threads at once, the second one's is never used
  return own_.compare_exchange_strong(expected, fresh) ? fresh : expected;
}

void guard::forget() noexcept {
  base::lock_guard lock(mutex_);
  live_.clear();
  own_ = nullptr;
}

}  // namespace gpumem::resource
