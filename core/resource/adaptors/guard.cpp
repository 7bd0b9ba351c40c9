// See guard.hpp.
#include "core/resource/adaptors/guard.hpp"

#include <algorithm>
#include <array>
#include <new>

#include "core/driver/error.hpp"
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
  space::handle const h = pass_down(more);
  guarded block{.bytes = request.bytes};
  if (void const* const from = request.caller(); from != nullptr)
    block.from = stats::site_of(node_, {&from, 1});
  if (prepare(h, request, block)) {
    base::lock_guard lock(mutex_);
    try {
      live_.insert_or_assign(h, block);
    } catch (std::bad_alloc const&) {  // it goes unchecked
    }
  }
  return h;
}

// Fills the block and its zone, so that both are there before its first use. False: it cannot be done now.
bool guard::prepare(space::handle h, allocation_request const& request, guarded& block) noexcept {
  if (home_.epochs.capturing()) return false;
  std::uint64_t const begin = blocks()[h].begin();
  std::uint64_t const end = begin + block.bytes;
  std::uint64_t const zone_end =
      std::min(blocks()[h].end(), (end + options_.redzone + space::unit - 1) / space::unit * space::unit);
  if (options_.redzone != 0) block.zone = zone_end - end;
  stream_order::relaxed_mode relaxed(true);
  auto const here = home_.epochs.enter();
  if (!here.is_there()) return false;
  bool const ordered = has_stream(request.slot, request.stream);
  // Memory of the legacy stream may still be in use by its earlier work.
  if (request.slot != stream_order::no_slot && !ordered && home_.epochs.synchronize() != CUDA_SUCCESS)
    return false;
  CUstream const on = ordered ? request.stream : own_stream();
  if (!ordered && on == nullptr) return false;
  bool good = !options_.fill_on_alloc || fill(on, begin, block.bytes, new_pattern);
  good = good && (block.zone == 0 || fill(on, end, block.zone, zone_pattern));
  if (!ordered) good = driver::real.cuStreamSynchronize(on) == CUDA_SUCCESS && good;
  return good;
}

bool guard::fill(CUstream on, std::uint64_t address, std::uint64_t bytes, unsigned char pattern) noexcept {
  return driver::real.cuMemsetD8Async(address, pattern, bytes, on) == CUDA_SUCCESS;
}

// Waits for everything that may use a block freed in this way.
bool guard::settle(free_order const& order) noexcept {
  if (home_.epochs.capturing()) return false;
  if (order.settled) return true;
  if (!has_stream(order.slot, order.stream)) {
    if (home_.epochs.synchronize() != CUDA_SUCCESS) return false;
    return !home_.epochs.awaits_others() || home_.epochs.wait(home_.epochs.open());
  }
  return driver::real.cuStreamSynchronize(order.stream) == CUDA_SUCCESS;
}

void guard::given_back(space::handle h, free_order const& order) noexcept {
  guarded block;
  {
    base::lock_guard lock(mutex_);
    auto const found = live_.find(h);
    if (found == live_.end()) return;
    block = found->second;
    live_.erase(found);
  }
  stream_order::relaxed_mode relaxed(true);
  auto const here = home_.epochs.enter();
  if (!here.is_there() || !settle(order)) return;
  check(h, block, order.caller());
  // What another process may have open is left alone.
  if (!options_.fill_on_free || blocks()[h].is(space::exported)) return;
  bool const ordered = has_stream(order.slot, order.stream);
  CUstream const on = ordered ? order.stream : own_stream();
  if (!ordered && on == nullptr) return;
  fill(on, blocks()[h].begin(), block.bytes, freed_pattern);
  if (!ordered) driver::real.cuStreamSynchronize(on);
}

void guard::synchronized() noexcept {
  if (options_.redzone == 0 || home_.epochs.capturing()) return;
  stream_order::relaxed_mode relaxed(true);
  auto const here = home_.epochs.enter();
  if (!here.is_there()) return;
  base::lock_guard lock(mutex_);  // none of these blocks is given back meanwhile
  for (auto& [h, block] : live_) check(h, block, nullptr);
}

// Once a block: after the first report its zone tells nothing new.
void guard::check(space::handle h, guarded& block, void const* caller) noexcept {
  if (block.zone == 0 || block.reported) return;
  std::uint64_t const begin = blocks()[h].begin();
  damage const found = look_at_zone(begin + block.bytes, block.zone);
  if (found.bytes == 0) return;
  block.reported = true;
  stats::note_misuse({.kind = stats::misuse_kind::damaged_zone,
                      .node = node_,
                      .address = begin,
                      .bytes = block.bytes,
                      .offset = block.bytes + found.first,
                      .damaged = found.bytes,
                      .here = caller != nullptr ? stats::site_of(node_, {&caller, 1}) : stats::no_site,
                      .allocated_at = block.from});
}

guard::damage guard::look_at_zone(std::uint64_t address, std::uint64_t bytes) noexcept {
  damage found;
  CUstream const on = own_stream();
  if (on == nullptr) return found;
  std::array<unsigned char, 4096> copy;
  for (std::uint64_t at = 0; at < bytes; at += copy.size()) {
    std::uint64_t const part = std::min<std::uint64_t>(copy.size(), bytes - at);
    if (driver::real.cuMemcpyDtoHAsync_v2(copy.data(), address + at, part, on) != CUDA_SUCCESS ||
        driver::real.cuStreamSynchronize(on) != CUDA_SUCCESS)
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
