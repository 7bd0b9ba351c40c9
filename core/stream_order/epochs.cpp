// See epochs.hpp.
#include "core/stream_order/epochs.hpp"

#include <time.h>

#include <algorithm>

#include "core/stats/counters.hpp"
#include "core/stats/state_page.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::stream_order {

namespace {

// The driver does not answer here and now (in a host function, beside a capture); the context is well.
bool is_refusal(CUresult code) noexcept {
  return code == CUDA_ERROR_NOT_PERMITTED ||
         (code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
}

}  // namespace

bool epochs::collect(stamp wanted) noexcept {
  // Another thread may be at it for this very epoch, for less time than going to sleep and waking takes.
  std::unique_lock lock(mutex_, std::try_to_lock);
  for (int spins = 0; !lock && spins < 2000 && !is_done(wanted); ++spins) {
    if (lock.try_lock()) break;
  }
  if (is_done(wanted)) return true;
  if (!lock) lock.lock();
  if (is_done(wanted)) return true;
  relaxed_mode relaxed;
  poll();
  // Not "is it the open one": a record that failed has closed an epoch without an event.
  if (!is_done(wanted) && closed_.covering(wanted) == nullptr) {
    close();
    poll();
  }
  return is_done(wanted);
}

bool epochs::poll_now() noexcept {
  std::lock_guard lock(mutex_);
  stamp const before = done_.load(std::memory_order_relaxed);
  relaxed_mode relaxed;
  poll();
  return done_.load(std::memory_order_relaxed) != before;
}

// Oldest first: events of one context complete in the order of their records, near enough; the first that is
// not done ends the look, so that a collection costs one query in the usual case.
bool epochs::poll() noexcept {
  while (!closed_.empty()) {
    CUresult const code = driver::real.cuEventQuery(closed_.oldest().event);
    if (code == CUDA_ERROR_NOT_READY) return true;
    if (is_refusal(code)) return false;
    if (code != CUDA_SUCCESS) {
      trouble_.fetch_or(lost, std::memory_order_acq_rel);
      return true;
    }
    complete(closed_.oldest().last);
    retire_oldest();
  }
  return true;
}

void epochs::retire_oldest() noexcept {
  spare_.push_back(closed_.oldest().event);
  closed_.pop();
}

void epochs::close() noexcept {
  if (capturing() && !GPUMEM_MUTANT(capture_ignored)) return;
  if (broken() || driver::real.cuCtxRecordEvent == nullptr || closed_.full()) return;
  CUevent event = nullptr;
  if (!spare_.empty()) {
    event = spare_.back();
    spare_.pop_back();
  } else {
    current_context here(context_);
    if (driver::real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return;
  }
  // The number moves on before the record: a free that still reads the old one is covered by this event.
  stamp last = open_.fetch_add(1, std::memory_order_acq_rel);
  if (GPUMEM_MUTANT(event_before_free)) ++last;
  if (!GPUMEM_MUTANT(no_event) && driver::real.cuCtxRecordEvent(context_, event) != CUDA_SUCCESS) {
    spare_.push_back(event);  // nothing was recorded: these frees are covered by the next event
    return;
  }
  closed_.push({last, event});
  stats::add(stats::local().devices[stats::device_slot(device_)].epochs_closed, 1);
}

void epochs::complete(stamp s) noexcept {
  if (!is_done(s)) done_.store(s, std::memory_order_release);
}

bool epochs::wait(stamp s) noexcept {
  for (unsigned rounds = 0; !is_done(s); ++rounds) {
    bool covered = false;
    {
      std::lock_guard lock(mutex_);
      relaxed_mode relaxed;
      bool const answered = poll();
      if (is_done(s)) return true;
      if (!answered || broken()) return false;  // waiting in a host function would be waiting for itself
      if (closed_.covering(s) == nullptr) close();
      covered = closed_.covering(s) != nullptr || closed_.full();  // room comes when the oldest is done
      if (!covered && capturing()) return false;
    }
    // For drivers without cuCtxRecordEvent (before 12.5), and where a record failed.
    if (!covered) return synchronize() == CUDA_SUCCESS && is_done(s);
    // Short waits are the rule (a kernel or two): spin first, then sleep a little longer each time.
    if (rounds < 64) continue;
    timespec const pause{0, std::min<long>(1000 * (rounds - 63), 100'000)};
    nanosleep(&pause, nullptr);
  }
  return true;
}

// During a capture it would fail and invalidate the capture, so it is refused before it is asked.
CUresult epochs::synchronize() noexcept {
  std::shared_lock beside(synchronizing_);
  if (capturing()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  stamp const mark = synchronize_begins();
  CUresult code;
  {
    relaxed_mode relaxed(true);
    current_context here(context_);
    code = driver::real.cuCtxSynchronize();
  }
  if (code == CUDA_SUCCESS) synchronize_done(mark);
  return code;
}

bool epochs::wait_on_device(CUstream stream, stamp s) noexcept {
  if (is_done(s)) return true;
  std::lock_guard lock(mutex_);
  if (capturing() || broken()) return false;
  relaxed_mode relaxed;
  closed_epoch const* found = closed_.covering(s);
  if (found == nullptr) {
    close();
    found = closed_.covering(s);
    if (found == nullptr) return false;
  }
  return driver::real.cuStreamWaitEvent(stream, found->event, CU_EVENT_WAIT_DEFAULT) == CUDA_SUCCESS;
}

stamp epochs::synchronize_begins() noexcept {
  return open_.fetch_add(1, std::memory_order_acq_rel) + (GPUMEM_MUTANT(synchronised_too_much) ? 1 : 0);
}

void epochs::synchronize_done(stamp mark) noexcept {
  std::lock_guard lock(mutex_);
  complete(mark);
  while (!closed_.empty() && is_done(closed_.oldest().last)) retire_oldest();
  stats::add(stats::local().devices[stats::device_slot(device_)].epochs_synchronized, 1);
}

void epochs::capture_begins(CUstream origin) noexcept {
  std::scoped_lock lock(synchronizing_, mutex_);
  origins_.push_back(origin);
  captures_.fetch_add(1, std::memory_order_acq_rel);
  active_captures.fetch_add(1, std::memory_order_acq_rel);
}

void epochs::capture_ended(CUstream origin) noexcept {
  std::lock_guard lock(mutex_);
  auto const found = std::find(origins_.begin(), origins_.end(), origin);
  if (found == origins_.end()) return;
  origins_.erase(found);
  captures_.fetch_sub(1, std::memory_order_acq_rel);
  active_captures.fetch_sub(1, std::memory_order_acq_rel);
}

void epochs::abandon() noexcept {
  std::lock_guard lock(mutex_);
  active_captures.fetch_sub(static_cast<int>(origins_.size()), std::memory_order_acq_rel);
  captures_.store(0, std::memory_order_release);
  origins_.clear();
  closed_.clear();  // the events die with their context
  spare_.clear();
  trouble_.fetch_or(lost, std::memory_order_acq_rel);
}

}  // namespace gpumem::stream_order
