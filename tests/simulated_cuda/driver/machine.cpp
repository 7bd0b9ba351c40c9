// The simulated machine: start-up, contexts, streams, handle look-up, call counters. Work and time are in
// engine.cpp. Called under the machine's lock, but for counters and start-up, which have their own. Nothing
// here runs before the first CUDA call.
#include "machine.hpp"

#include <pthread.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace simulated {
namespace {

unsigned long long number(char const* name, unsigned long long otherwise) {
  char const* const text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 0);
}

// A thread's default streams end with it, and a capture that one of them began (measured).
struct own_streams {
  explicit own_streams(std::uint64_t thread) : of(thread) {}
  ~own_streams() {
    machine& m = machine::get();
    std::lock_guard const held(m.lock_);
    m.thread_ends(of);
  }
  std::uint64_t const of;
};

}  // namespace

static CUresult told = CUDA_SUCCESS;  // under the machine's lock

CUresult machine::lost() noexcept {
  return told;
}

CUresult machine::fault_of(context* of) noexcept {
  if (of == nullptr) return CUDA_SUCCESS;
  if (told == CUDA_SUCCESS) told = of->home()->fault;
  return told;
}

thread_state& this_thread() noexcept {
  static std::atomic<std::uint64_t> next{1};
  thread_local thread_state state;
  if (state.id == 0) state.id = next.fetch_add(1);
  return state;
}

machine& machine::get() {
  static machine* const one = new machine;
  return *one;
}

machine::machine() {
  char const* const clock = std::getenv("GPUMEM_SIMULATED_CLOCK");
  manual_clock_ = clock != nullptr && std::strcmp(clock, "manual") == 0;
  strict_ = number("GPUMEM_SIMULATED_STRICT", 0) != 0;
  host_thread_ = number("GPUMEM_SIMULATED_HOST_THREAD", 0) != 0;
  stale_pushes_ = number("GPUMEM_SIMULATED_STALE_PUSHES", 0) != 0;
  pageable_ = number("GPUMEM_SIMULATED_PAGEABLE", 0) != 0;
  handles_come_again = number("GPUMEM_SIMULATED_HANDLES_AGAIN", 0) != 0;
  context_bytes_ = number("GPUMEM_SIMULATED_CONTEXT", 0);
  stream_bytes_ = number("GPUMEM_SIMULATED_STREAM", 0);
  mapping_bytes_ = number("GPUMEM_SIMULATED_MAPPING", 0);
  version_ = static_cast<int>(number("GPUMEM_SIMULATED_OLD_DRIVER", static_cast<unsigned>(default_version)));
  pthread_atfork([] { get().before_fork(); }, [] { get().after_fork_in_parent(); },
                 [] { get().after_fork_in_child(); });
}

CUresult machine::initialise() {
  if (forked_) return CUDA_ERROR_NOT_INITIALIZED;
  if (initialised_) return CUDA_SUCCESS;
  auto const devices = number("GPUMEM_SIMULATED_DEVICES", 2);
  if (devices == 0) return CUDA_ERROR_NO_DEVICE;
  auto const bytes = number("GPUMEM_SIMULATED_MEMORY", 8ull << 30);
  for (unsigned long long i = 0; i < devices; ++i) {
    memory_.add_device(bytes);
    auto* made = new context;
    made->device = static_cast<int>(i);
    made->primary = true;
    contexts_.insert(made);
    primary_.push_back(made);
  }
  initialised_ = true;
  return CUDA_SUCCESS;
}

void machine::after_fork_in_child() {
  // The lock is held by this thread's copy of the parent's; a fresh one is the portable way to let go of it.
  new (&lock_) std::mutex;
  new (&counters_lock_) std::mutex;
  if (initialised_) forked_ = true;
}

// A driver gives the handle of a context that ended to the next one, whoever makes it. Whether green contexts
// and others share them was not asked of any GPU.
context* machine::new_context(int device) {
  context* made = nullptr;
  if (!ended_.empty()) {
    made = ended_.back();
    ended_.pop_back();
    *made = {};
  } else {
    made = new context;
    contexts_.insert(made);
  }
  made->device = device;
  return made;
}

bool machine::takes(int device, std::uint64_t bytes) {
  memory_.collect(now_, host_);
  return memory_.of(device).charge(bytes);
}

bool machine::start(context& made) {
  if (made.green_of == nullptr && !takes(made.device, context_bytes_)) return false;
  made.own = made.green_of == nullptr ? context_bytes_ : 0;
  made.alive = true;
  made.fault = CUDA_SUCCESS;
  made.id = next_id_++;
  made.legacy = make_stream(made, CU_STREAM_DEFAULT, 0);
  made.legacy->is_legacy = true;
  return true;
}

// What a green context has not finished stays its primary context's.
void machine::finish(context& gone) {
  if (gone.green_of != nullptr) {
    gone.green_of->left_over.join(all_work(gone));
    gone.green_of->greens.erase(&gone);
  } else {
    gone.ending = true;
    host_wait(all_work(gone));
    let_others_in();
    while (!gone.greens.empty()) finish(**gone.greens.begin());
  }
  // Of others: of its own it takes none along (580.159 crashes, tests/gpu/ended_beside_calls).
  int mine = 0;
  thread_state& here = this_thread();
  for (int i = 0; i < here.depth; ++i) mine += here.at(i).pushed && here.at(i).of == &gone;
  if (gone.pushed > mine)
    checker_.report(
        "ended while pushed: a context ends between another thread's cuCtxPushCurrent of it and "
        "its cuCtxPopCurrent");
  while (!gone.streams.empty()) destroy_stream(*gone.streams.begin());
  for (event* e : gone.events) {
    events_.erase(e);
    handle_records<event>::end(e);
  }
  gone.events.clear();
  gone.per_thread.clear();
  gone.left_over = gone.left_over_blocking = {};
  gone.peers.clear();
  for (context* each : contexts_) each->peers.erase(&gone);
  gone.legacy = nullptr;
  gone.alive = gone.ending = false;
  memory_.of(gone.device).uncharge(std::exchange(gone.own, 0));
  forget_imports(*this, &gone);
  memory_.forget(&gone);
  checker_.forget(&gone);
  if (handles_come_again && !gone.primary && gone.pushed == 0) ended_.push_back(&gone);
}

// Its memory may be another context's that is being made (580.159 crashes, ending_beside_others).
void machine::note_stale(char const* call) {
  if (stale_pushes_) checker_.report(std::string("stale: ") + call + " of a context that has ended");
}

void machine::let_others_in() {
  timespec const pause{.tv_sec = 0, .tv_nsec = 50'000};
  lock_.unlock();
  nanosleep(&pause, nullptr);
  lock_.lock();
}

stream* machine::make_stream(context& owner, unsigned flags, int priority) {
  auto* const made = handle_records<stream>::make();
  made->id = next_id_++;
  made->owner = &owner;
  made->flags = flags;
  made->priority = priority;
  made->slot = free_slot();
  owner.streams.insert(made);
  streams_.insert(made);
  return made;
}

stream* machine::make_own_stream(context& owner, unsigned flags, int priority) {
  if (!takes(owner.device, stream_bytes_)) return nullptr;
  stream* const made = make_stream(owner, flags, priority);
  made->bytes = stream_bytes_;
  return made;
}

void machine::destroy_stream(stream* gone) {
  memory_.of(gone->owner->device).uncharge(gone->bytes);
  // A stream that only joined a capture may go, its work joined back or not: what it put into the graph stays
  // there (NVIDIA's sample graphMemoryNodes does it). With its origin a capture is over. Both measured.
  if (gone->capturing) {
    gone->capturing->joined.erase(gone);
    gone->capturing->members.erase(gone);
    if (gone->capturing->origin == gone) end_capture(gone->capturing);
  }
  gone->owner->streams.erase(gone);
  streams_.erase(gone);
  idle_slots_.push_back(gone->slot);
  handle_records<stream>::end(gone);
}

void machine::end_capture(std::shared_ptr<capture> ended) {
  ended->origin->capturing = nullptr;
  for (stream* each : ended->members) each->capturing = nullptr;
  captures_.erase(ended);
}

void machine::thread_ends(std::uint64_t id) {
  for (context* each : contexts_) {
    auto const own = each->per_thread.find(id);
    if (own == each->per_thread.end()) continue;
    leave_work(*own->second);
    destroy_stream(own->second);
    each->per_thread.erase(own);
  }
}

void machine::allocated(std::shared_ptr<graph_memory> const& of) {
  of->live = true;
  live_graph_memory_[of.get()] = of;
}

void machine::freed(graph_memory& of, point const& when) {
  of.live = false;
  auto const left = live_graph_memory_.extract(&of);
  if (left.empty() || left.mapped().use_count() != 1) return;
  block const gone = *memory_.at(of.address);  // no graph has it any longer
  memory_.erase(gone.base);
  memory_.release_after(gone, when);
}

void machine::leave_work(stream& gone) {
  gone.owner->left_over.join(gone.tail);
  if (gone.blocking()) gone.owner->left_over_blocking.join(gone.tail);
}

std::size_t machine::free_slot() {
  // A slot serves again only when the host is ordered after all its old work, or that work would look
  // ordered.
  for (std::size_t i = 0; i < idle_slots_.size() && i < 8; ++i) {
    std::size_t const slot = idle_slots_[i];
    if (ticks_[slot] != 0 && !host_.covers(slot, ticks_[slot])) continue;
    idle_slots_[i] = idle_slots_.back();
    idle_slots_.pop_back();
    return slot;
  }
  ticks_.push_back(0);
  return ticks_.size() - 1;
}

CUresult machine::current(context*& result) {
  result = this_thread().current();
  if (result == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return result->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult machine::under_ended() noexcept {
  context const* const here = this_thread().current();
  return here == nullptr || here->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult machine::resolve(CUcontext handle, context*& result) {
  if (handle == nullptr) return current(result);
  result = reinterpret_cast<context*>(handle);
  if (contexts_.count(result) == 0) return CUDA_ERROR_INVALID_CONTEXT;
  return result->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult machine::resolve(CUstream handle, stream*& result) {
  thread_state& mine = this_thread();
  if (handle == nullptr) handle = mine.per_thread_default ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
    result = reinterpret_cast<stream*>(handle);
    return streams_.count(result) != 0 ? fault_of(result->owner) : CUDA_ERROR_INVALID_HANDLE;
  }
  context* here = nullptr;
  if (CUresult const code = current(here); code != CUDA_SUCCESS) return code;
  if (CUresult const code = fault_of(here); code != CUDA_SUCCESS) return code;
  if (handle == CU_STREAM_LEGACY) {
    result = here->legacy;
    return CUDA_SUCCESS;
  }
  stream*& own = here->per_thread[mine.id];
  if (own == nullptr) own = make_stream(*here, CU_STREAM_DEFAULT, 0);
  thread_local own_streams const end_with_thread(mine.id);
  result = own;
  return CUDA_SUCCESS;
}

CUresult machine::resolve(CUevent handle, event*& result) {
  result = reinterpret_cast<event*>(handle);
  if (events_.count(result) != 0) return fault_of(result->owner);
  note_stale("a call with an event");
  return CUDA_ERROR_INVALID_HANDLE;
}

counter& machine::calls_of(char const* name) {
  std::lock_guard const guard(counters_lock_);
  return counters_[name];
}

unsigned long long machine::calls(char const* name) {
  std::lock_guard const guard(counters_lock_);
  unsigned long long sum = 0;
  for (auto const& [each, count] : counters_) {
    if (name == nullptr || each == name) sum += count.load();
  }
  return sum;
}

void machine::reset_calls() {
  std::lock_guard const guard(counters_lock_);
  for (auto& [name, count] : counters_) count = 0;
}

}  // namespace simulated
