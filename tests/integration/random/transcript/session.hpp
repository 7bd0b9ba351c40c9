// A program of chance that keeps no rule: one step after the other it calls what the driver has for memory,
// streams, captures and contexts, with good arguments and with bad ones, and says what came back. What it
// says holds no address and no time, so two runs with one seed say the same, and a run under a preload
// library must say it too. Handles and blocks have names (s3, b17). Used by one thread at a time: steps of
// the second thread are waited for.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace transcript {

constexpr std::size_t most_moved = std::size_t{1} << 30;  // of managed memory, by one call

enum class kind { plain, ordered, managed, pinned, pitched, from_pool, of_graph };

struct block {
  std::string name;
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  kind made = kind::plain;
  CUcontext context = nullptr;  // in which it was made
  CUgraph graph = nullptr;      // whose node made it, once the capture is over
  cuuint64_t captured_in = 0;   // the capture, as long as it runs
  int device = 0;
};

struct place {
  std::string name;
  CUcontext handle = nullptr;
  int device = 0;
  bool primary = false;
};

struct queue {
  std::string name;
  CUstream handle = nullptr;
  CUcontext context = nullptr;
};

struct mark {
  std::string name;
  CUevent handle = nullptr;
  CUcontext context = nullptr;
  cuuint64_t recorded_in = 0;  // the capture in which it was recorded last
};

// A capture that runs. Its number tells it from others: the name of a per-thread stream is that of any
// thread's.
struct running {
  queue origin;
  cuuint64_t id = 0;
  CUcontext context = nullptr;  // of its origin
  unsigned thread = 0;          // that began it
  std::set<std::string> touched;
};

struct recorded {
  std::string name;
  CUgraph graph = nullptr;
  CUgraphExec ready = nullptr;
  CUcontext context = nullptr;
  std::set<std::string> touched;  // blocks that are not its own
};

struct own_pool {
  std::string name;
  CUmemoryPool handle = nullptr;
  int device = 0;
};

// What does not tell how far the GPU is.
inline CUresult timeless(CUresult code) {
  return code == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : code;
}

class session {
 public:
  struct options {
    bool tame = false;              // no handle that is dead or was never one; a real driver may follow those
    bool checks = false;            // after each step: is all that is taken for alive alive?
    std::set<std::string> without;  // steps left out, by name
  };
  session(unsigned seed, options wanted);

  // One step by the calling thread, the same for the same number.
  void step(unsigned number, unsigned thread);
  // By that thread, before it ends.
  void before_end_of_thread(unsigned thread);
  // That thread has ended, and with it its streams; another one has its number.
  void thread_ended(unsigned thread);
  // All that is alive goes back, all captures end.
  void finish();

 private:
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }
  // Within its first GiB: of managed memory there may be more than 32 bits say.
  std::size_t some_offset(block const& of) {
    return below(static_cast<unsigned>(std::min<std::size_t>(of.bytes, 1u << 30)));
  }
  bool one_in(unsigned n) { return below(n) == 0; }
  void say(char const* format, ...) __attribute__((format(printf, 2, 3)));
  // Says the call and its code, which it returns.
  CUresult said(CUresult code, char const* format, ...) __attribute__((format(printf, 3, 4)));
  std::string fresh(char prefix) { return prefix + std::to_string(++names_); }

  // session.cpp: what is there, and picking from it
  CUcontext current();
  int current_device();
  int device_of(queue const& on);
  std::string name_of(CUcontext context);
  std::string name_of(CUmemoryPool pool);
  std::string where(CUdeviceptr address);  // relative to a block's begin
  std::size_t some_size();
  int some_device();
  queue some_stream();
  CUevent some_event(std::string& name);
  unsigned flags_told(block const& of, unsigned flags);  // of page-locked memory
  place* some_place();
  block* some_block();
  bool anything_captures() { return !capturing_.empty(); }
  CUmemoryPool some_pool(std::string& name);
  void keep(block made);
  void drop(block* gone);

  // books.cpp: what is alive
  cuuint64_t capture_of(CUstream on);  // the number of the capture that the stream belongs to; 0: none
  void look_for_ends();
  void capture_began(queue const& on);
  void event_recorded(CUevent which, cuuint64_t capture);
  void touched_in(cuuint64_t capture, block const& which);
  std::set<std::string> touched_in(cuuint64_t capture);
  bool may_run(recorded const& graph);
  void context_ended(CUcontext context);
  void capture_ended(cuuint64_t id, CUgraph graph);
  void try_dead(block const& gone);
  void check();

  // calls_memory.cpp
  void allocate();
  void allocate_ordered();
  void allocate_managed();
  void allocate_pinned();
  void allocate_pitched();
  void allocate_from_pool();
  void free_right();
  void free_wrong();
  void misuse();
  void touch();
  void registered();
  void virtual_memory();
  void array();

  // calls_query.cpp
  void address_range();
  void attribute();
  void attributes();
  void memory_info();
  void ipc();
  void sync_memops();
  void advise();
  void look_up();

  // calls_managed.cpp
  struct part {
    CUdeviceptr address;
    std::size_t bytes;
  };
  part some_part(block const& of);
  void range_attribute();
  void batch();
  void attach();
  void page_locked();
  void kinds_of_pools();

  // calls_stream.cpp
  void create_stream();
  void destroy_stream();
  void observe_stream();
  void wait_for_stream();
  void record_event();
  void wait_event();
  void create_event();
  void destroy_event();
  void context_event();

  // calls_capture.cpp
  void begin_capture();
  void end_capture();
  void fork_and_join();
  void exchange_mode();
  void instantiate();
  void launch();
  void destroy_graph();

  // calls_context.cpp
  void set_context();
  void push_context();
  void pop_context();
  void create_context();
  void destroy_context();
  void retain_primary();
  void release_primary();
  void reset_primary();
  void synchronize();
  void peer_access();
  void green_context();

  // calls_pool.cpp
  void create_pool();
  void destroy_pool();
  void pool_attribute();
  bool asks_early() const { return seed_ % 2 != 0; }  // else requests are served as of who never asks
  void ask_early();
  void trim_pool();
  void set_pool();
  void pool_access();

  // calls_odd.cpp
  void odd_pool();
  void odd_pool_attribute();
  void odd_pool_access();
  void odd_range();
  void odd_mapping();
  void odd_event();
  void odd_graph();
  void odd_registration();

  void act();

  struct action;
  static std::vector<action> const& actions();

  std::mt19937 random_;
  unsigned const seed_;
  bool const tame_;
  bool const checks_;
  std::set<std::string> const without_;
  unsigned number_ = 0, thread_ = 0, names_ = 0;
  int devices_ = 0;
  std::deque<block> blocks_;
  std::deque<place> places_;
  std::deque<queue> streams_;
  std::deque<mark> events_;
  std::deque<recorded> graphs_;
  std::deque<own_pool> pools_;
  // Pools that other devices may touch, or from which a stream of one took: there the driver has a part, and
  // the highest of its part and of the chain's are not of one moment.
  std::set<std::string> other_devices_;
  std::vector<running> capturing_;
  std::map<CUcontext, unsigned long long> contexts_;  // of all that is here, with the driver's number for it
  std::map<int, CUcontext> primaries_;                // by device, once retained
};

}  // namespace transcript
