// See epochs.hpp.
#include "core/stream_order/epochs.hpp"

#include <algorithm>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/threads/interleave.hpp"
#include "core/base/threads/sleep.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/driver/question.hpp"
#include "core/stats/page/counters.hpp"
#include "core/stats/page/state_page.hpp"
#include "core/stream_order/relaxed_mode.hpp"
#include "core/stream_order/watched_calls.hpp"

namespace gpumem::stream_order {

bool epochs::collect(epoch_id wanted) noexcept {
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
  base::lock_guard lock(mutex_);
  epoch_id const before = done_.load(std::memory_order_relaxed);
  relaxed_mode relaxed;
  poll();
  return done_.load(std::memory_order_relaxed) != before;
}

bool epochs::may_ask() const noexcept {
  mutex_.expect_held();
  if (!ending() || GPUMEM_MUTANT(asked_while_ending)) return true;
  return is_current(context()) && !counted_life{.id = id()}.is_anothers(context());
}

// A code of anything else is none of the event's.
static bool says_it_is_lost(CUresult code) noexcept {
  return driver::is_sticky(code) || driver::is_of_no_context(code) || GPUMEM_MUTANT(any_code_is_loss);
}

// Oldest first: events of one context complete in the order of their records, near enough; the first that is
// not done ends the look, so that a collection costs one query in the usual case.
bool epochs::poll() noexcept {
  mutex_.expect_held();
  if (closed_.empty() || !may_ask()) return true;
  while (!closed_.empty()) {
    CUresult const code = driver::real.cuEventQuery(closed_.oldest().event);
    if (code == CUDA_ERROR_NOT_READY) return true;
    if (is_refusal(code)) return false;
    // Once it is asked again; nobody waits for a driver that goes on so.
    bool const again = std::exchange(unasked_, driver::is_of_the_question(code));
    if (unasked_ && !again) return true;
    if (unasked_ && code != CUDA_ERROR_UNKNOWN) return false;
    if (code != CUDA_SUCCESS && !unasked_ && !says_it_is_lost(code)) return false;
    if (code != CUDA_SUCCESS) {
      hear(code);
      if (unasked_) loss_.store(code, std::memory_order_release);  // as of a device that is gone
      trouble_.fetch_or(lost, std::memory_order_acq_rel);
      return true;
    }
    if (elsewhere_.any() && elsewhere_.oldest_waiting(closed_.oldest().last) != nullptr) return true;
    complete(closed_.oldest().last);
    retire_oldest();
  }
  return true;
}

void epochs::retire_oldest() noexcept {
  mutex_.expect_held();
  spare_.push_back(closed_.oldest().event);
  closed_.pop();
}

void epochs::close() noexcept {
  mutex_.expect_held();
  if (capturing() && !GPUMEM_MUTANT(capture_ignored)) return;
  if (broken() || driver::real.cuCtxRecordEvent == nullptr || closed_.full() || !may_close()) return;
  if (!may_ask()) return;
  CUevent const event = take_event();
  if (event == nullptr) return;
  // The number moves on before the record: a free that still reads the old one is covered by this event.
  epoch_id last = open_.fetch_add(1, std::memory_order_acq_rel);
  base::interleave();
  if (GPUMEM_MUTANT(event_before_free)) ++last;
  CUresult const code =
      GPUMEM_MUTANT(no_event) ? CUDA_SUCCESS : driver::real.cuCtxRecordEvent(context(), event);
  if (code != CUDA_SUCCESS) {
    spare_.push_back(event);  // nothing was recorded: these frees are covered by the next event
    hear(code);
    return;
  }
  closed_.push({last, event});
  stats::add(stats::local().devices[stats::device_slot(device_)].epochs_closed, 1);
}

CUevent epochs::take_event() noexcept {
  mutex_.expect_held();
  CUevent event = nullptr;
  if (!spare_.empty()) {
    event = spare_.back();
    spare_.pop_back();
    return event;
  }
  scoped_context const here = enter();
  if (!here.is_there()) return nullptr;
  CUresult const code = driver::real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  hear(code);
  return code == CUDA_SUCCESS ? event : nullptr;
}

// Under the mutex, as the next life begins under it.
void epochs::hear(CUresult code, std::uint32_t of) noexcept {
  if (!driver::is_sticky(code)) return;
  base::lock_guard lock(mutex_);
  if (!ended_since(of)) hear(code);
}

// By an event that is under way, or by one that is recorded now.
void epochs::look_for_loss() noexcept {
  base::lock_guard lock(mutex_);
  if (broken()) return;
  relaxed_mode relaxed;
  poll();
  close();
}

void epochs::complete(epoch_id s) noexcept {
  mutex_.expect_held();
  if (!is_done(s)) done_.store(s, std::memory_order_release);
}

bool epochs::wait(epoch_id s, std::uint64_t most_ns) noexcept {
  base::uncancelled const held;
  constexpr std::uint64_t longest_end_ns = 1'000'000'000;  // as whoever enters waits for it
  std::uint64_t const begin = base::now_ns();
  std::uint64_t unable_since = 0;
  for (unsigned rounds = 0; !is_done(s); ++rounds) {
    bool covered = false;
    {
      base::lock_guard lock(mutex_);
      relaxed_mode relaxed;
      bool const answered = poll();
      if (is_done(s)) return true;
      if (!answered || broken()) return false;  // waiting in a host function would be waiting for itself
      bool const asks = driver::real.cuCtxRecordEvent == nullptr || may_ask();
      if (closed_.covering(s) == nullptr) close();
      // Room comes when the oldest is done, and most calls that may end a context do not.
      covered = closed_.covering(s) != nullptr || closed_.full() || !asks;
      if (!covered && capturing()) return false;
      if (in_vain_ == last_done() + 1) return false;
      if (asks)
        unable_since = 0;
      else if (unable_since == 0)
        unable_since = base::now_ns();
      else if (base::now_ns() - unable_since > longest_end_ns)
        return false;
      if (rounds >= 64 && base::now_ns() - begin > most_ns) {
        if (most_ns >= longest_wait_ns) in_vain_ = last_done() + 1;
        return false;
      }
    }
    // For drivers without cuCtxRecordEvent (before 12.5), and where a record failed.
    if (!covered) return synchronize() == CUDA_SUCCESS && is_done(s);
    // Short waits are the rule (a kernel or two): spin first, then sleep a little longer each time.
    if (rounds < 64) continue;
    base::sleep_for(std::min<std::uint64_t>(1000 * (rounds - 63), 100'000));
  }
  return true;
}

bool epochs::await(epochs const& other, CUstream stream) noexcept {
  if (GPUMEM_MUTANT(host_waits_for_foreign_work)) return false;
  base::uncancelled const held;
  base::lock_guard lock(mutex_);
  relaxed_mode relaxed;
  elsewhere_.oldest_waiting(open());
  return elsewhere_.add(open(), other, stream);
}

// By an event of the context rather than cuCtxSynchronize: that one would have to be kept apart from captures
// that begin for as long as it waits. The event is this call's own: what others record meanwhile is not
// waited for, which may be work that waits for this thread.
CUresult epochs::synchronize() noexcept {
  base::uncancelled const held;
  // For all of it: the event is not its own beyond that.
  scoped_context const here = enter(context_visits::if_ending::wait);
  if (!here.is_there()) return here.code();
  CUevent mine = nullptr;
  epoch_id mark = 0;
  std::uint32_t of = 0;
  {
    base::lock_guard lock(mutex_);
    if (capturing()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    of = life();
    relaxed_mode relaxed;
    if (driver::real.cuCtxRecordEvent != nullptr && !broken()) mine = take_event();
    if (mine != nullptr) {
      mark = synchronize_begins();
      CUresult const code = driver::real.cuCtxRecordEvent(context(), mine);
      if (code != CUDA_SUCCESS) {
        spare_.push_back(mine);
        if (is_refusal(code)) return code;
        mine = nullptr;
      }
    }
  }
  if (mine == nullptr) return synchronize_context();
  CUresult code;
  {
    relaxed_mode relaxed(true);
    code = driver::asked(driver::real.cuEventSynchronize, mine);
  }
  {
    base::lock_guard lock(mutex_);
    // It goes with its context: the next one would record nothing by it.
    if (!ended_since(of)) spare_.push_back(mine);
  }
  if (code == CUDA_SUCCESS) synchronize_done(mark);
  return code;
}

// For drivers without context events. During a capture it would fail and invalidate the capture, so it is
// refused before it is asked.
CUresult epochs::synchronize_context() noexcept {
  {
    base::lock_guard lock(mutex_);
    if (capturing()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    ++synchronizing_;
  }
  epoch_id const mark = synchronize_begins();
  CUresult code;
  {
    relaxed_mode relaxed(true);
    scoped_context const here = enter(context_visits::if_ending::wait);
    code = here.is_there() ? driver::real.cuCtxSynchronize() : here.code();
  }
  {
    base::lock_guard lock(mutex_);
    --synchronizing_;
  }
  if (code == CUDA_SUCCESS) synchronize_done(mark);
  return code;
}

bool epochs::wait_on_device(CUstream stream, epoch_id s) noexcept {
  if (is_done(s)) return true;
  base::lock_guard lock(mutex_);
  if (capturing() || broken() || !may_ask()) return false;
  relaxed_mode relaxed;
  closed_epoch const* found = closed_.covering(s);
  if (found == nullptr) {
    close();
    found = closed_.covering(s);
    if (found == nullptr) return false;
  }
  if (elsewhere_.any() && elsewhere_.oldest_waiting(found->last) != nullptr) return false;
  return driver::real.cuStreamWaitEvent(stream, found->event, CU_EVENT_WAIT_DEFAULT) == CUDA_SUCCESS;
}

bool epochs::wait_on_device(CUstream stream, epoch_id s, CUstream freed_on) noexcept {
  if (is_done(s)) return true;
  base::lock_guard lock(mutex_);
  if (capturing() || broken() || elsewhere_.any() || !may_ask()) return false;
  relaxed_mode relaxed;
  CUevent const event = take_event();
  if (event == nullptr) return false;
  bool const waits = driver::real.cuEventRecord(event, freed_on) == CUDA_SUCCESS &&
                     driver::real.cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT) == CUDA_SUCCESS;
  spare_.push_back(event);  // a wait is for what was recorded before it
  return waits;
}

bool epochs::is_idle(CUstream stream) noexcept {
  base::lock_guard lock(mutex_);
  if (capturing() || broken() || elsewhere_.any() || !may_ask()) return false;
  relaxed_mode relaxed;
  if (driver::real.cuStreamQuery(stream) != CUDA_SUCCESS) return false;
  if (stands_alone(stream) || GPUMEM_MUTANT(legacy_stream_not_asked)) return true;
  scoped_context const here = enter();
  return here.is_there() && driver::real.cuStreamQuery(CU_STREAM_LEGACY) == CUDA_SUCCESS;
}

bool epochs::stands_alone(CUstream stream) noexcept {
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) return false;
  unsigned flags = CU_STREAM_DEFAULT;
  return driver::asked(driver::real.cuStreamGetFlags, stream, &flags) == CUDA_SUCCESS &&
         (flags & CU_STREAM_NON_BLOCKING) != 0;
}

// Where epochs can be closed no more, as the program's synchronisations fail, it covers all but the open one.
epoch_id epochs::move_on() noexcept {
  return may_close() ? open_.fetch_add(1, std::memory_order_acq_rel) : open() - 1;
}

epoch_id epochs::synchronize_begins() noexcept {
  return move_on() + (GPUMEM_MUTANT(synchronised_too_much) ? 1 : 0);
}

void epochs::synchronize_done(epoch_id mark) noexcept {
  base::lock_guard lock(mutex_);
  if (elsewhere_.any()) [[unlikely]]
    mark = before_foreign_work(mark);
  complete(mark);
  while (!closed_.empty() && is_done(closed_.oldest().last)) retire_oldest();
  stats::add(stats::local().devices[stats::device_slot(device_)].epochs_synchronized, 1);
}

// As far as work of other contexts lets epochs be done.
epoch_id epochs::before_foreign_work(epoch_id s) noexcept {
  relaxed_mode relaxed;
  epoch_id const* const waiting = elsewhere_.oldest_waiting(s);
  return waiting != nullptr ? *waiting - 1 : s;
}

void epochs::count_captures(int more) noexcept {
  mutex_.expect_held();
  captures_.store(std::max(0, captures_.load(std::memory_order_relaxed) + more), std::memory_order_release);
}

void epochs::capture_begins(origin const& begun) noexcept {
  bool are_entering = false;
  {
    base::lock_guard lock(mutex_);
    origins_.push_back(begun);
    count_captures(1);
    active_captures.fetch_add(1, std::memory_order_acq_rel);
    if (begun.watches) watching_captures.fetch_add(1, std::memory_order_acq_rel);
    are_entering = synchronizing_ > 0;
  }
  if (are_entering) let_synchronizations_enter();
}

// A cuCtxSynchronize of ours may have seen no capture and not be in the driver yet. It need not be over,
// which the program may not reach before this capture: once inside it does the capture no harm.
void epochs::let_synchronizations_enter() noexcept {
  for (int rounds = 0; rounds < 1000; ++rounds) {
    {
      base::lock_guard lock(mutex_);
      if (synchronizing_ == 0) return;
    }
    base::sleep_for(50'000);
  }
}

template <typename Gone>
bool epochs::remove_origins(Gone gone, std::size_t most) noexcept {
  mutex_.expect_held();
  bool watched_one = false;
  for (auto each = origins_.begin(); each != origins_.end() && most > 0;) {
    if (!gone(*each)) {
      ++each;
      continue;
    }
    if (each->watches) watching_captures.fetch_sub(1, std::memory_order_acq_rel);
    watched_one = watched_one || each->watches;
    active_captures.fetch_sub(1, std::memory_order_acq_rel);
    count_captures(-1);
    each = origins_.erase(each);
    --most;
  }
  return watched_one;
}

// The newest of the stream: a begin on a stream that captures already is refused, and changes nothing.
bool epochs::capture_ended(CUstream stream) noexcept {
  if (!capturing()) return false;
  base::lock_guard lock(mutex_);
  auto const newest = std::find_if(origins_.rbegin(), origins_.rend(),
                                   [stream](origin const& o) { return o.stream == stream; });
  if (newest == origins_.rend()) return false;
  origin const* const found = &*newest;
  return remove_origins([found](origin const& o) { return &o == found; }, 1);
}

void epochs::captures_gone(void const* of) noexcept {
  base::lock_guard lock(mutex_);
  remove_origins([of](origin const& o) { return o.of == of; }, origins_.size());
}

void epochs::join_begins() noexcept {
  bool are_entering = false;
  {
    base::lock_guard lock(mutex_);
    count_captures(1);
    are_entering = synchronizing_ > 0;
  }
  if (are_entering) let_synchronizations_enter();
}

void epochs::join_ended(bool joined) noexcept {
  base::lock_guard lock(mutex_);
  if (!joined || joined_.load(std::memory_order_relaxed)) count_captures(-1);
  if (joined) joined_.store(true, std::memory_order_release);
}

void epochs::joins_over() noexcept {
  if (!joined_.load(std::memory_order_acquire)) return;
  base::lock_guard lock(mutex_);
  if (!joined_.load(std::memory_order_relaxed) || any_captures()) return;
  joined_.store(false, std::memory_order_release);
  count_captures(-1);
}

void epochs::watch(bool on) noexcept {
  if (on)
    trouble_.fetch_or(watched, std::memory_order_acq_rel);
  else
    trouble_.fetch_and(~watched, std::memory_order_acq_rel);
}

void epochs::end_begins() noexcept {
  trouble_.fetch_add(1, std::memory_order_acq_rel);
  if (!GPUMEM_MUTANT(asked_while_ending)) base::lock_guard lock(mutex_);
}

void epochs::abandon() noexcept {
  base::lock_guard lock(mutex_);
  remove_origins([](origin const&) { return true; }, origins_.size());
  captures_.store(0, std::memory_order_release);
  joined_.store(false, std::memory_order_release);
  closed_.clear();  // the events die with their context
  spare_.clear();
  elsewhere_.clear();
  unasked_ = false;
  loss_.store(CUDA_SUCCESS, std::memory_order_release);
  trouble_.fetch_or(lost, std::memory_order_acq_rel);
  life_.fetch_add(1, std::memory_order_acq_rel);
}

void epochs::begin_again(CUcontext next) noexcept {
  base::lock_guard lock(mutex_);
  context_.store(next, std::memory_order_release);
  id_.store(driver::id_of(next), std::memory_order_release);
  done_.store(open_.fetch_add(1, std::memory_order_acq_rel), std::memory_order_release);
  in_vain_ = 0;
  pace.end();
  loss_.store(CUDA_SUCCESS, std::memory_order_release);
  life_.fetch_add(1, std::memory_order_acq_rel);
  trouble_.store(0, std::memory_order_release);
}

}  // namespace gpumem::stream_order
