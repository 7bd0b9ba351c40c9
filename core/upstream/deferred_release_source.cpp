// See deferred_release_source.hpp.
#include "core/upstream/deferred_release_source.hpp"

#include <algorithm>
#include <new>

#include "core/base/mutant.hpp"

namespace gpumem::upstream {

void deferred_release_source::release(resource::extent const& memory,
                                      resource::release_order const& order) noexcept {
  if (!order.may_wait && !GPUMEM_MUTANT(frees_in_order_wait)) {
    if (!memory.done || !give_away_at_once(memory)) defer(memory);
    return;
  }
  release_what_is_done();
  // Neither the driver nor a synchronisation of this context waits for work of others.
  bool const soon = order.stream == nullptr && (memory.done || !home_.epochs.awaits_others());
  bool const waits_here = soon && !home_.epochs.broken() && !driver_waits_;
  bool const at_once = home_.epochs.broken() || (soon && driver_waits_);
  if (at_once || (waits_here && home_.epochs.synchronize() == CUDA_SUCCESS)) return hand_back(memory);
  defer(memory);
}

void deferred_release_source::hand_back(resource::extent const& memory) noexcept {
  refused_.release(
      memory, [this](auto const& m) { return give_away(m); }, [this](auto const& m) { lost(m); });
}

std::uint64_t deferred_release_source::release_what_is_done() noexcept {
  refused_.retry([this](auto const& m) { return give_away(m); }, [this](auto const& m) { lost(m); });
  return release_done(true);
}

void deferred_release_source::defer(resource::extent const& memory) noexcept {
  if (!keep(memory)) lost(memory);
}

bool deferred_release_source::keep(resource::extent const& memory) noexcept try {
  base::lock_guard lock(waiting_mutex_);
  if (forgotten_) return false;
  waiting_.reserve(waiting_.size() + 1);
  waiting_.push_back({memory, home_.epochs.open(),
                      home_.where.segments.add(memory.address, memory.bytes, &owner_, memory.contextless)});
  any_waits_.store(true, std::memory_order_relaxed);
  return true;
} catch (std::bad_alloc const&) {
  return true;  // lost for good: better than memory that goes while work uses it
}

std::uint64_t deferred_release_source::release_done(bool asks) noexcept {
  if (!any_waits_.load(std::memory_order_relaxed)) return 0;
  std::vector<waiting> done;
  {
    base::lock_guard lock(waiting_mutex_);
    if (waiting_.empty()) return 0;
    if (asks) home_.epochs.collect(waiting_.back().freed);
    auto const first = std::find_if(waiting_.begin(), waiting_.end(), [this](waiting const& w) {
      return !home_.epochs.is_done(w.freed) && !GPUMEM_MUTANT(freed_before_done);
    });
    try {
      done.assign(waiting_.begin(), first);
    } catch (std::bad_alloc const&) {
      return 0;
    }
    waiting_.erase(waiting_.begin(), first);
    any_waits_.store(!waiting_.empty(), std::memory_order_relaxed);
  }
  std::uint64_t bytes = 0;
  for (waiting const& w : done) {
    // Removed before it goes: from then on the address may be somebody else's.
    if (w.segment != nullptr) home_.where.segments.remove(w.segment);
    resource::extent memory = w.memory;
    memory.done = true;
    hand_back(memory);
    bytes += w.memory.bytes;
  }
  return bytes;
}

// At exit another thread may have stopped with the mutex held.
std::uint64_t deferred_release_source::pending() noexcept {
  std::uint64_t bytes = refused_.bytes();
  if (!any_waits_.load(std::memory_order_relaxed)) return bytes;
  if (!waiting_mutex_.try_lock()) return bytes;
  for (waiting const& w : waiting_) bytes += home_.epochs.is_done(w.freed) ? 0 : w.memory.bytes;
  waiting_mutex_.unlock();
  return bytes;
}

std::uint64_t deferred_release_source::trim() noexcept {
  if (any_waits_.load(std::memory_order_relaxed)) home_.epochs.wait(home_.epochs.open());
  return release_what_is_done();
}

void deferred_release_source::forget() noexcept {
  base::lock_guard lock(waiting_mutex_);
  forgotten_ = true;
  for (waiting const& w : waiting_) {
    if (w.segment != nullptr) home_.where.segments.remove(w.segment);
    lost(w.memory);
  }
  waiting_.clear();
  any_waits_.store(false, std::memory_order_relaxed);
  refused_.forget([this](auto const& m) { lost(m); });
}

}  // namespace gpumem::upstream
