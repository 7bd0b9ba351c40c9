// The one simulated machine: devices, clock, queues of work, and the lock around all of it. Every exported
// function enters through `entry` (entry.hpp) and works on this. Made at the first call, never destroyed, so
// calls from static destructors still work. Work is placed in time when it is submitted (everything it waits
// for is known then); its effect on memory happens when the clock passes its end.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <queue>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "checker.hpp"
#include "cuda_api.hpp"
#include "memory.hpp"
#include "model.hpp"

namespace simulated {

using counter = std::atomic<unsigned long long>;

struct stacked_context {
  context* of = nullptr;
  bool pushed = false;  // by cuCtxPushCurrent
};

// Of one host thread; plain data, so it outlives the thread's destructors. Little, as a library that is
// loaded late has little room for it; a deep stack of contexts stays in the heap.
struct thread_state {
  stacked_context first[16];
  stacked_context* deeper = nullptr;
  int room = 0;  // there
  int depth = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool per_thread_default = false;  // inside a _ptsz/_ptds form
  bool in_host_function = false;
  unsigned long long host_waits = 0;
  bool noted_above = false;  // the program notes what it is given; the runtime need not
  std::uint64_t id = 0;

  stacked_context& at(int level) noexcept {
    constexpr int few = std::size(decltype(first){});
    return level < few ? first[level] : deeper[level - few];
  }
  stacked_context& deepen() {
    constexpr int few = std::size(decltype(first){});
    if (depth - few == room) {  // no limit was found (asked: 2,000,000)
      auto* const more = new stacked_context[2 * static_cast<std::size_t>(room) + few];
      std::copy_n(deeper, room, more);
      delete[] std::exchange(deeper, more);
      room = 2 * room + few;
    }
    return at(depth++);
  }
  void shrink() {
    if (--depth > static_cast<int>(std::size(decltype(first){}))) return;
    delete[] std::exchange(deeper, nullptr);
    room = 0;
  }
  context* current() noexcept { return depth == 0 ? nullptr : at(depth - 1).of; }
};
thread_state& this_thread() noexcept;
extern int const default_version;  // of the driver, which a version of this library may be older than

class machine {
 public:
  static machine& get();

  CUresult initialise();
  bool initialised() const noexcept { return initialised_; }
  bool forked() const noexcept { return forked_; }
  int version() const noexcept { return version_; }
  int device_count() const noexcept { return static_cast<int>(primary_.size()); }

  // --- work
  // ----------------------------------------------------------------------------------------------------- On
  // a capturing stream: a node of its graph. Else: placed in time, checked, queued.
  CUresult submit(stream& on, operation work);
  // Of a stream that only joined the capture: work that is to be joined back (measured:
  // simulated_answers.py).
  static void add_node(stream& on, graph_node node);
  void schedule(stream& on, operation work);
  void wait(stream& on, point const& after);  // the stream's later work comes after it
  void legacy_order(stream& on);              // what the legacy default stream's rules make `on` wait for
  point all_work(context& of);

  // --- host
  // -----------------------------------------------------------------------------------------------------
  // Moves the clock, runs what ends, orders the host. While a host function runs other threads are let in:
  // whatever the caller found before (a block, a stream, a place in a list) may be gone, and `until` is a
  // copy for that reason.
  void host_wait(point until);
  bool host_query(point const& until);  // true, and the host is ordered after it, if it has ended
  void advance(nanoseconds to);
  void tick(nanoseconds to);  // the same, but stands still while a host function runs: nothing waits for it
  void run_all();
  void trim_pools();  // what a synchronisation does to pools above their threshold
  // A call that takes a while: others get in before it returns, as they do where a driver ends a context.
  void let_others_in();
  void note_stale(char const* call);

  // --- handles
  // --------------------------------------------------------------------------------------------------
  CUresult current(context*& result);
  // The code of a current context that has ended; with none, or one that lives, success.
  static CUresult under_ended() noexcept;
  // What a call says that learns of a fault. From then on it is the whole process's, in all contexts, for
  // good: none can be made, and no reset ends it (measured: faulted, faulted_elsewhere; of one device).
  static CUresult fault_of(context* of) noexcept;
  static CUresult lost() noexcept;
  CUresult resolve(CUstream handle, stream*& result);
  CUresult resolve(CUevent handle, event*& result);
  CUresult resolve(CUcontext handle, context*& result);
  context& primary(int device) { return *primary_[static_cast<std::size_t>(device)]; }
  context* new_context(int device);
  // Of the device, for what is no block; what was freed in order and is done is there for it.
  bool takes(int device, std::uint64_t bytes);
  bool start(context& made);   // gives it its default stream; false: the device has no room for it
  void finish(context& gone);  // destroys all it holds
  stream* make_stream(context& owner, unsigned flags, int priority);
  stream* make_own_stream(context& owner, unsigned flags, int priority);  // null: no room on the device
  void destroy_stream(stream* gone);
  void thread_ends(std::uint64_t id);
  void allocated(std::shared_ptr<graph_memory> const& of);  // by a launch
  void freed(graph_memory& of, point const& when);
  void leave_work(stream& gone);  // what a stream has not finished stays the context's

  // --- captures
  // ------------------------------------------------------------------------------------------------- An
  // unsafe call by this thread: invalidates the captures it disturbs and returns 900, or 0.
  CUresult unsafe_call();
  // Stream-ordered memory is a node of the graph on a capturing stream, and unsafe on any other (measured).
  CUresult unsafe_call(stream const& on) { return on.capturing ? CUDA_SUCCESS : unsafe_call(); }
  void end_capture(std::shared_ptr<capture> ended);  // its streams capture no longer
  // A call that touches all streams of the context: any capture that one of them is in is disturbed, whatever
  // the mode, and wherever it began.
  CUresult disturbs(context& of);
  CUresult implicit_sync(context& of);  // legacy stream used while a blocking stream captures: 906

  counter& calls_of(char const* name);
  unsigned long long calls(char const* name);
  void reset_calls();
  void before_fork() { lock_.lock(); }
  void after_fork_in_parent() { lock_.unlock(); }
  void after_fork_in_child();

  std::mutex lock_;
  nanoseconds now_ = 0;
  bool manual_clock_ = false;
  bool host_thread_ = false;  // host functions run on a thread of the driver's own
  bool strict_ = false;
  bool stale_pushes_ = false;        // are reported
  bool pageable_ = false;            // devices reach any memory of the host
  std::uint64_t context_bytes_ = 0;  // that each context takes for itself
  std::uint64_t stream_bytes_ = 0;   // and each stream that the program makes
  std::uint64_t mapping_bytes_ =
      0;  // and each mapping of registered memory of the host, or of a program's own
  vector_clock host_;
  memory memory_;
  checker checker_{host_};
  std::unordered_set<context*> contexts_;
  std::vector<context*> ended_;  // whose handles are the next ones'
  std::unordered_set<stream*> streams_;
  std::unordered_set<event*> events_;
  std::unordered_set<graph*> graphs_;
  std::unordered_set<graph_exec*> execs_;
  std::unordered_set<std::shared_ptr<capture>> captures_;
  // What launches left to the program; it outlives its graph (measured: asked_rules graphs).
  std::map<graph_memory*, std::shared_ptr<graph_memory>> live_graph_memory_;
  unsigned long long next_id_ = 1;

 private:
  machine();
  void check(stream& on, operation const& work);
  std::size_t free_slot();

  struct pending {
    nanoseconds end = 0;
    std::uint64_t sequence = 0;
    std::function<void()> action, host_function;
    bool operator<(pending const& other) const {
      return end != other.end ? end > other.end : sequence > other.sequence;
    }
  };
  std::priority_queue<pending> queue_;
  std::uint64_t sequence_ = 0;
  bool host_function_runs_ = false;
  std::condition_variable host_function_done_;
  std::vector<std::uint64_t> ticks_;  // by slot
  std::vector<std::size_t> idle_slots_;
  std::vector<context*> primary_;
  std::mutex counters_lock_;
  std::map<std::string, counter> counters_;
  bool initialised_ = false;
  bool forked_ = false;
  int version_ = default_version;
};

// Memory of other processes that the context has open (api_ipc.cpp).
void forget_imports(machine& m, context* owner);

// Physical memory of cuMemCreate on a device (api_vmm.cpp).
std::uint64_t physical_bytes(int device);

// The primary context's references (api_context.cpp); a green context holds one. Both wait for one that is
// ending.
CUresult primary_retain(machine& m, CUdevice device, context*& result);
CUresult primary_release(machine& m, CUdevice device);

}  // namespace simulated
