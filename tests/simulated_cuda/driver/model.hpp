// The things a driver API program holds handles to: contexts, streams, events, captures, graphs. Plain
// records; the machine owns them and every access is under its lock. A handle is the address of its record.
// Records of destroyed streams and events are freed, so handles are reused as those of the real driver are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "clock.hpp"
#include "cuda_api.hpp"
#include "handle_records.hpp"
#include "simulated.h"

namespace simulated {

using nanoseconds = std::uint64_t;

// A moment in submitted work: when it is reached on the clock, and all it comes after.
struct point {
  nanoseconds end = 0;
  vector_clock after;

  void join(point const& other) {
    end = std::max(end, other.end);
    after.join(other.after);
  }
};

// One piece of device work, not yet placed in time.
struct operation {
  char const* name = "";
  nanoseconds duration = 0;
  std::vector<simulated_access> accesses;
  std::function<void()> action;         // the effect on memory, at its end; may be empty
  std::function<void()> host_function;  // run without the lock
  bool by_program = false;              // a declared kernel: it may touch live allocations only
  std::vector<std::uint64_t> pinned{};  // page-locked memory that the action reads or writes
};

struct graph_memory;

struct graph_node {
  operation work;
  std::shared_ptr<graph_memory> allocates;  // at most one of these two
  std::shared_ptr<graph_memory> frees;
};

struct graph {
  std::vector<graph_node> nodes;
};

struct graph_exec {
  graph const* source = nullptr;  // null: destroyed
  std::vector<graph_node> nodes;
  bool auto_free = false;
};

struct stream;
struct context;

struct capture {
  unsigned long long id = 0;
  stream* origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::uint64_t thread = 0;
  bool invalidated = false;
  std::unordered_set<stream*> members;  // streams pulled in by an event, of any context
  std::unordered_set<stream*> joined;   // those with work that the origin has not waited for
  std::unique_ptr<graph> result;
  graph* into = nullptr;  // of the program: it gets the nodes
  bool anew = false;      // in the place of those it has
  bool to_cig = false;    // a command list of a graphics API gets them, as far as this stand-in is concerned
};

struct stream {
  unsigned long long id = 0;
  context* owner = nullptr;
  unsigned flags = 0;
  int priority = 0;
  std::size_t slot = 0;
  std::uint64_t bytes = 0;  // of the device, for itself
  bool is_legacy = false;
  point tail;  // after the last submitted operation
  std::shared_ptr<capture> capturing;

  bool blocking() const noexcept { return (flags & CU_STREAM_NON_BLOCKING) == 0; }
};

struct event {
  context* owner = nullptr;
  unsigned flags = 0;
  bool recorded = false;
  point when;
  stream* recorded_on = nullptr;        // in that capture; compared, never followed
  std::shared_ptr<capture> in_capture;  // recorded in a capture: no moment of its own
};

struct context {
  unsigned long long id = 0;
  int device = 0;
  unsigned flags = 0;
  bool primary = false;
  bool alive = false;
  bool ending = false;            // its end waits for its work, and lets other threads in
  unsigned references = 0;        // of a primary context
  int pushed = 0;                 // cuCtxPushCurrent of it, on any thread, that was not popped
  std::uint64_t own = 0;          // device memory that it takes for itself
  std::uint64_t stack = 1 << 10;  // of each thread
  CUresult fault = CUDA_SUCCESS;  // of a kernel; from then on what every call about its work and memory says
  stream* legacy = nullptr;
  std::unordered_map<std::uint64_t, stream*> per_thread;
  std::unordered_set<stream*> streams;  // all, with the default ones
  std::unordered_set<event*> events;
  point left_over;           // work of destroyed streams
  point left_over_blocking;  // of those that ordered with the legacy stream
  std::unordered_set<context*> peers;
  context* green_of = nullptr;          // a green context: the primary one whose memory and events it uses
  std::unordered_set<context*> greens;  // of a primary context

  context* home() noexcept { return green_of != nullptr ? green_of : this; }
};

}  // namespace simulated
