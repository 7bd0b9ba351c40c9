// See session.hpp. Here: the steps and how one is chosen, names, and picking from what is there.
#include "tests/integration/random/transcript/session.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace transcript {

struct session::action {
  unsigned weight;
  void (session::*run)();
  char const* name;
};

std::vector<session::action> const& session::actions() {
  using s = session;
  static std::vector<action> const all = {
      {60, &s::allocate, "allocate"},
      {60, &s::allocate_ordered, "allocate_ordered"},
      {8, &s::allocate_managed, "allocate_managed"},
      {12, &s::allocate_pinned, "allocate_pinned"},
      {10, &s::allocate_pitched, "allocate_pitched"},
      {10, &s::allocate_from_pool, "allocate_from_pool"},
      {90, &s::free_right, "free_right"},
      {24, &s::free_wrong, "free_wrong"},
      {16, &s::misuse, "misuse"},
      {30, &s::touch, "touch"},
      {4, &s::registered, "registered"},
      {5, &s::virtual_memory, "virtual_memory"},
      {4, &s::array, "array"},
      {24, &s::address_range, "address_range"},
      {30, &s::attribute, "attribute"},
      {10, &s::attributes, "attributes"},
      {8, &s::memory_info, "memory_info"},
      {8, &s::ipc, "ipc"},
      {6, &s::sync_memops, "sync_memops"},
      {6, &s::advise, "advise"},
      {6, &s::look_up, "look_up"},
      {8, &s::range_attribute, "range_attribute"},
      {12, &s::batch, "batch"},
      {5, &s::attach, "attach"},
      {6, &s::page_locked, "page_locked"},
      {4, &s::kinds_of_pools, "kinds_of_pools"},
      {24, &s::create_stream, "create_stream"},
      {14, &s::destroy_stream, "destroy_stream"},
      {10, &s::observe_stream, "observe_stream"},
      {6, &s::wait_for_stream, "wait_for_stream"},
      {16, &s::record_event, "record_event"},
      {16, &s::wait_event, "wait_event"},
      {10, &s::create_event, "create_event"},
      {6, &s::destroy_event, "destroy_event"},
      {3, &s::context_event, "context_event"},
      {14, &s::begin_capture, "begin_capture"},
      {20, &s::end_capture, "end_capture"},
      {14, &s::fork_and_join, "fork_and_join"},
      {14, &s::exchange_mode, "exchange_mode"},
      {10, &s::instantiate, "instantiate"},
      {14, &s::launch, "launch"},
      {6, &s::destroy_graph, "destroy_graph"},
      {40, &s::set_context, "set_context"},
      {10, &s::push_context, "push_context"},
      {10, &s::pop_context, "pop_context"},
      {4, &s::create_context, "create_context"},
      {3, &s::destroy_context, "destroy_context"},
      {10, &s::retain_primary, "retain_primary"},
      {5, &s::release_primary, "release_primary"},
      {2, &s::reset_primary, "reset_primary"},
      {5, &s::synchronize, "synchronize"},
      {5, &s::peer_access, "peer_access"},
      {2, &s::green_context, "green_context"},
      {4, &s::create_pool, "create_pool"},
      {2, &s::destroy_pool, "destroy_pool"},
      {10, &s::pool_attribute, "pool_attribute"},
      {4, &s::trim_pool, "trim_pool"},
      {3, &s::set_pool, "set_pool"},
      {3, &s::pool_access, "pool_access"},
      {3, &s::odd_pool, "odd_pool"},
      {5, &s::odd_pool_attribute, "odd_pool_attribute"},
      {4, &s::odd_pool_access, "odd_pool_access"},
      {6, &s::odd_range, "odd_range"},
      {4, &s::odd_mapping, "odd_mapping"},
      {5, &s::odd_event, "odd_event"},
      {3, &s::odd_graph, "odd_graph"},
      {3, &s::odd_registration, "odd_registration"},
  };
  return all;
}

session::session(unsigned seed, options wanted)
    : seed_(seed), tame_(wanted.tame), checks_(wanted.checks), without_(std::move(wanted.without)) {
  said(cuInit(0), "cuInit");
  said(cuDeviceGetCount(&devices_), "cuDeviceGetCount");
  if (asks_early()) ask_early();
}

void session::step(unsigned number, unsigned thread) {
  number_ = number;
  thread_ = thread;
  random_.seed(seed_ * 1'000'003u + number);
  act();
  look_for_ends();
  if (checks_) check();
}

void session::act() {
  // The begin of a program: contexts and streams, or nothing is there to ask for.
  if (number_ < 6)
    return number_ % 3 == 0 ? retain_primary() : number_ % 3 == 1 ? set_context() : create_stream();
  CUdevice device = 0;
  if (cuCtxGetDevice(&device) != CUDA_SUCCESS && one_in(2))
    return places_.empty() ? retain_primary() : set_context();
  unsigned sum = 0;
  for (action const& each : actions()) sum += each.weight;
  unsigned pick = below(sum);
  for (action const& each : actions()) {
    if (pick < each.weight) return without_.contains(each.name) ? void() : (this->*each.run)();
    pick -= each.weight;
  }
}

void session::finish() {
  number_ = 999'999;
  thread_ = 0;
  while (!capturing_.empty()) {
    CUgraph graph = nullptr;
    running const last = capturing_.back();
    said(cuCtxSetCurrent(last.context), "cuCtxSetCurrent %s", name_of(last.context).c_str());
    said(cuStreamEndCapture(last.origin.handle, &graph), "cuStreamEndCapture %s", last.origin.name.c_str());
    capture_ended(last.id, graph);
  }
  if (places_.empty()) return;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  said(cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode");
  while (!blocks_.empty()) {
    block const b = blocks_.front();
    said(cuCtxSetCurrent(b.context), "cuCtxSetCurrent %s", name_of(b.context).c_str());
    if (b.made == kind::pinned) {
      said(cuMemFreeHost(reinterpret_cast<void*>(b.address)), "cuMemFreeHost %s", b.name.c_str());
    } else {
      said(cuMemFree(b.address), "cuMemFree %s", b.name.c_str());
    }
    blocks_.pop_front();
  }
}

void session::say(char const* format, ...) {
  std::printf("%u.%u  ", number_, thread_);
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
  std::fflush(stdout);  // the last line is where a driver may end the process
}

CUresult session::said(CUresult code, char const* format, ...) {
  std::printf("%u.%u  ", number_, thread_);
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf(" = %d\n", static_cast<int>(code));
  std::fflush(stdout);
  return code;
}

CUcontext session::current() {
  CUcontext context = nullptr;
  return cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : nullptr;
}

int session::current_device() {
  CUdevice device = 0;
  return cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : 0;
}

int session::device_of(queue const& on) {
  CUcontext const wanted = on.context != nullptr ? on.context : current();
  for (place const& each : places_) {
    if (each.handle == wanted) return each.device;
  }
  return -1;
}

std::string session::name_of(CUcontext context) {
  if (context == nullptr) return "no context";
  for (place const& each : places_) {
    if (each.handle == context) return each.name;
  }
  return "an ended context";
}

std::string session::name_of(CUmemoryPool pool) {
  if (pool == nullptr) return "no pool";
  for (own_pool const& each : pools_) {
    if (each.handle == pool) return each.name;
  }
  for (int d = 0; d < devices_; ++d) {
    CUmemoryPool of = nullptr;
    if (cuDeviceGetDefaultMemPool(&of, d) == CUDA_SUCCESS && of == pool)
      return "default pool " + std::to_string(d);
  }
  return "another pool";
}

std::string session::where(CUdeviceptr address) {
  if (address == 0) return "null";
  for (block const& each : blocks_) {
    if (address < each.address || address >= each.address + each.bytes) continue;
    return each.name + "+" + std::to_string(address - each.address);
  }
  return "elsewhere";
}

std::size_t session::some_size() {
  switch (below(24)) {
    case 0:
      return 0;
    case 1:
      return std::size_t{1} << 44;
    case 2:
    case 3:
      return 1 + below(4u << 20);
    default:
      return 1 + below(1u << (4 + below(14)));
  }
}

int session::some_device() {
  unsigned const pick = below(24);
  if (pick == 0) return devices_;
  if (pick == 1) return -1;
  return static_cast<int>(below(static_cast<unsigned>(devices_)));
}

// Beside captures not the legacy stream: where a blocking stream captures, a driver refuses stream-ordered
// calls on it with 906, and a chain serves them.
queue session::some_stream() {
  unsigned const pick = below(12);
  switch (anything_captures() && pick < 2 ? 2 : pick) {
    case 0:
      return {"0", nullptr, nullptr};
    case 1:
      return {"legacy", CU_STREAM_LEGACY, nullptr};
    case 2:
      return {"per thread", CU_STREAM_PER_THREAD, nullptr};
    case 3:
      if (!tame_ && one_in(4)) return {"bad stream", reinterpret_cast<CUstream>(0x5000), nullptr};
      [[fallthrough]];
    case 4:
    case 5:
      if (!capturing_.empty()) return capturing_[below(static_cast<unsigned>(capturing_.size()))].origin;
      [[fallthrough]];
    default:
      if (streams_.empty()) return {"per thread", CU_STREAM_PER_THREAD, nullptr};
      return streams_[below(static_cast<unsigned>(streams_.size()))];
  }
}

CUevent session::some_event(std::string& name) {
  if (events_.empty()) return nullptr;
  mark const& found = events_[below(static_cast<unsigned>(events_.size()))];
  name = found.name;
  return found.handle;
}

// Small blocks that differ in this flag alone lie in one of a driver's, which has that of its first
// (580.159.04).
unsigned session::flags_told(block const& of, unsigned flags) {
  bool const alone = std::none_of(blocks_.begin(), blocks_.end(), [&](block const& each) {
    return each.made == kind::pinned && each.address != of.address;
  });
  return alone || !tame_ ? flags : flags & ~unsigned{CU_MEMHOSTALLOC_PORTABLE};
}

place* session::some_place() {
  return places_.empty() ? nullptr : &places_[below(static_cast<unsigned>(places_.size()))];
}

block* session::some_block() {
  return blocks_.empty() ? nullptr : &blocks_[below(static_cast<unsigned>(blocks_.size()))];
}

CUmemoryPool session::some_pool(std::string& name) {
  CUmemoryPool found = nullptr;
  if (!pools_.empty() && one_in(2)) {
    own_pool const& each = pools_[below(static_cast<unsigned>(pools_.size()))];
    name = each.name;
    return each.handle;
  }
  int const device = static_cast<int>(below(static_cast<unsigned>(devices_)));
  bool const default_one = one_in(2);
  if (default_one) {
    said(cuDeviceGetDefaultMemPool(&found, device), "cuDeviceGetDefaultMemPool %d", device);
  } else {
    said(cuDeviceGetMemPool(&found, device), "cuDeviceGetMemPool %d", device);
  }
  name = name_of(found);
  return found;
}

void session::keep(block made) {
  blocks_.push_back(std::move(made));
}

void session::drop(block* gone) {
  blocks_.erase(blocks_.begin() + (std::find_if(blocks_.begin(), blocks_.end(),
                                                [gone](block const& each) { return &each == gone; }) -
                                   blocks_.begin()));
}

}  // namespace transcript
