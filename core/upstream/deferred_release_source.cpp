// See deferred_release_source.hpp.
#include "core/upstream/deferred_release_source.hpp"

#include <algorithm>
#include <new>

#include "core/base/clock.hpp"
#include "core/base/mutant.hpp"
#include "core/upstream/call.hpp"

namespace gpumem::upstream {

void deferred_release_source::release(resource::extent const& memory,
                                      resource::release_order const& order) noexcept {
  if (!order.may_wait && !GPUMEM_MUTANT(frees_in_order_wait)) {
    if (!memory.done || would_wait() || !give_away(memory, false)) defer(memory);
    return;
  }
  release_done(true, true);
  // Neither the driver nor a synchronisation of this context waits for work of others.
  bool const soon = order.stream == nullptr && (memory.done || !home_.epochs.awaits_others());
  bool const waits_here = soon && !home_.epochs.broken() && !driver_waits_;
  bool const at_once = home_.epochs.broken() || (soon && driver_waits_);
  bool const goes = at_once || (waits_here && home_.epochs.synchronize() == CUDA_SUCCESS);
  if (!goes || !give_away(memory, true)) defer(memory);
}

// Without context events nobody can be asked without a wait.
static bool can_ask() noexcept {
  return driver::real.cuCtxRecordEvent != nullptr;
}

bool deferred_release_source::has_work() noexcept {
  constexpr std::uint64_t for_so_long = 1'000'000;
  std::uint64_t const now = base::now_ns();
  if (!can_ask() || now - had_work_.load(std::memory_order_relaxed) < for_so_long) return true;
  if (home_.epochs.wait(home_.epochs.open(), 0)) return false;
  had_work_.store(now, std::memory_order_relaxed);
  return true;
}

void deferred_release_source::keep(resource::extent const& memory, stream_order::epoch_id freed,
                                   bool first) noexcept {
  if (!add(memory, freed, first)) lost(memory);
}

bool deferred_release_source::add(resource::extent const& memory, stream_order::epoch_id freed,
                                  bool first) noexcept try {
  base::lock_guard lock(waiting_mutex_);
  if (forgotten_ || went_with_context(home_, memory.life)) return false;
  waiting_.reserve(waiting_.size() + 1);
  waiting_.insert(first ? waiting_.begin() : waiting_.end(), {memory, freed, owner_.add(memory)});
  any_waits_.store(true, std::memory_order_relaxed);
  return true;
} catch (std::bad_alloc const&) {
  return true;  // lost for good: better than memory that goes while work uses it
}

std::list<deferred_release_source::taken_out> deferred_release_source::take_done(bool asks) noexcept try {
  base::lock_guard lock(waiting_mutex_);
  if (waiting_.empty()) return {};
  if (asks) home_.epochs.collect(waiting_.back().freed);
  auto const first = std::find_if(waiting_.begin(), waiting_.end(), [this](waiting const& w) {
    return !home_.epochs.is_done(w.freed) && !GPUMEM_MUTANT(freed_before_done);
  });
  std::list<taken_out> done;
  for (auto each = waiting_.begin(); each != first; ++each) {
    resource::extent const& memory = each->memory;
    done.emplace_back().what = *each;
    done.back().hand.hold(home_.epochs, memory.life, memory.address, memory.bytes);
  }
  waiting_.erase(waiting_.begin(), first);
  any_waits_.store(!waiting_.empty(), std::memory_order_relaxed);
  return done;
} catch (std::bad_alloc const&) {
  return {};
}

std::uint64_t deferred_release_source::release_done(bool asks, bool may_wait) noexcept {
  if (!any_waits_.load(std::memory_order_relaxed) || (!may_wait && would_wait())) return 0;
  std::uint64_t bytes = 0;
  for (std::list<taken_out> done = take_done(asks); !done.empty(); done.pop_front()) {
    waiting const& w = done.front().what;
    owner_.remove(w.segment);
    resource::extent memory = w.memory;
    memory.done = true;
    if (give_away(memory, may_wait))
      bytes += memory.bytes;
    else
      keep(memory, w.freed, true);
  }
  return bytes;
}

// At exit another thread may have stopped with the mutex held.
std::uint64_t deferred_release_source::pending() noexcept {
  std::uint64_t bytes = 0;
  if (!any_waits_.load(std::memory_order_relaxed) || !waiting_mutex_.try_lock()) return bytes;
  for (waiting const& w : waiting_) bytes += home_.epochs.is_done(w.freed) ? 0 : w.memory.bytes;
  waiting_mutex_.unlock();
  return bytes;
}

std::uint64_t deferred_release_source::trim(resource::give_back_scope scope) noexcept {
  bool const waits = scope == resource::give_back_scope::all;
  std::uint64_t const bytes = release_done(true, waits && !can_ask());
  if (!waits || !any_waits_.load(std::memory_order_relaxed)) return bytes;
  home_.epochs.wait(home_.epochs.open());
  return bytes + release_done(true, !can_ask());
}

void deferred_release_source::forget() noexcept {
  base::lock_guard lock(waiting_mutex_);
  forgotten_ = true;
  for (waiting const& w : waiting_) {
    lost(w.memory);
    owner_.remove(w.segment);
  }
  waiting_.clear();
  any_waits_.store(false, std::memory_order_relaxed);
}

void deferred_release_source::begin_again() noexcept {
  base::lock_guard lock(waiting_mutex_);
  forgotten_ = false;
  had_work_.store(0, std::memory_order_relaxed);
}

}  // namespace gpumem::upstream
