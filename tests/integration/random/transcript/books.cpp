// See session.hpp. Here: what is alive, and what ends with what. Contexts end in many ways (a release, a
// reset, the last green context), captures with their stream, its thread or its context; a block that is
// taken for alive when it is not is freed under an address that may be anybody's, and then plain and
// preloaded answers differ rightly.
#include <algorithm>
#include <thread>

#include "tests/integration/random/transcript/session.hpp"

namespace transcript {

namespace {

constexpr cuuint64_t invalidated = ~cuuint64_t{0};  // of which a driver says no number

cuuint64_t number_of_capture(CUstream on) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUresult const code = cuStreamGetCaptureInfo(on, &status, &id, nullptr, nullptr, nullptr, nullptr);
  if (code != CUDA_SUCCESS || status == CU_STREAM_CAPTURE_STATUS_NONE) return 0;
  return status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? id : invalidated;
}

// 0: it has ended.
unsigned long long number_of(CUcontext context) {
  unsigned long long id = 0;
  return cuCtxGetId(context, &id) == CUDA_SUCCESS ? id : 0;
}

}  // namespace

// Nobody asks where nothing captures: beside a capture the question alone would spoil it.
cuuint64_t session::capture_of(CUstream on) {
  if (capturing_.empty()) return 0;
  cuuint64_t const id = number_of_capture(on);
  auto const found = std::find_if(capturing_.begin(), capturing_.end(), [&](running const& each) {
    bool const mine = on != CU_STREAM_PER_THREAD || (each.thread == thread_ && each.context == current());
    bool const own = each.origin.handle == on && mine;
    return id == invalidated ? own : each.id == id;
  });
  return found != capturing_.end() ? found->id : 0;
}

void session::capture_began(queue const& on) {
  capturing_.push_back(
      {on, number_of_capture(on.handle), on.context != nullptr ? on.context : current(), thread_, {}});
}

void session::event_recorded(CUevent which, cuuint64_t capture) {
  for (mark& each : events_) {
    if (each.handle == which) each.recorded_in = capture;
  }
}

void session::touched_in(cuuint64_t capture, block const& which) {
  for (running& each : capturing_) {
    if (each.id == capture && which.captured_in != capture) each.touched.insert(which.name);
  }
}

std::set<std::string> session::touched_in(cuuint64_t capture) {
  auto const found = std::find_if(capturing_.begin(), capturing_.end(),
                                  [capture](running const& each) { return each.id == capture; });
  return found != capturing_.end() ? found->touched : std::set<std::string>{};
}

// A launch after that would write into what is somebody else's by then, or nobody's.
bool session::may_run(recorded const& graph) {
  std::size_t const there = static_cast<std::size_t>(std::count_if(
      blocks_.begin(), blocks_.end(), [&](block const& each) { return graph.touched.contains(each.name); }));
  return there == graph.touched.size();
}

// What a wait for an event of a capture that is over does has been asked of no driver.
void session::capture_ended(cuuint64_t id, CUgraph graph) {
  std::erase_if(capturing_, [id](running const& each) { return each.id == id; });
  std::erase_if(events_, [id](mark const& each) {
    return each.recorded_in == id && cuEventDestroy(each.handle) == CUDA_SUCCESS;
  });
  std::erase_if(blocks_, [&](block const& each) { return each.captured_in == id && graph == nullptr; });
  for (block& each : blocks_) {
    if (each.captured_in != id) continue;
    each.captured_in = 0;
    each.graph = graph;
  }
}

void session::thread_ended(unsigned thread) {
  std::vector<running> const all = capturing_;
  for (running const& each : all) {
    if (each.origin.handle == CU_STREAM_PER_THREAD && each.thread == thread) capture_ended(each.id, nullptr);
  }
}

// A driver ends the process where a thread ends whose own stream has a capture that was invalidated
// (580.159.04); one that runs ends with the thread.
void session::before_end_of_thread(unsigned thread) {
  if (!tame_) return;
  thread_ = thread;
  std::vector<running> const all = capturing_;
  for (running const& each : all) {
    if (each.origin.handle != CU_STREAM_PER_THREAD || each.thread != thread) continue;
    cuCtxSetCurrent(each.context);
    if (number_of_capture(CU_STREAM_PER_THREAD) != invalidated) continue;
    CUgraph graph = nullptr;
    said(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph), "cuStreamEndCapture of the thread that ends");
    capture_ended(each.id, graph);
  }
}

void session::look_for_ends() {
  std::map<CUcontext, unsigned long long> const all = contexts_;
  for (auto const& [context, id] : all) {
    if (number_of(context) == id) continue;
    contexts_.erase(context);
    context_ended(context);
  }
  // A green context begins its device's primary one again, which lives on if somebody had not released it.
  for (auto const& [device, context] : primaries_) {
    bool const known = std::any_of(places_.begin(), places_.end(),
                                   [context = context](place const& each) { return each.handle == context; });
    if (!known && !tame_ && number_of(context) != 0)
      places_.push_back({"primary " + std::to_string(device), context, device, true});
  }
  for (place const& each : places_) contexts_.try_emplace(each.handle, number_of(each.handle));
}

// Stream-ordered memory outlives its context natively, and in a pool of gpumem's does not: nobody asks.
void session::context_ended(CUcontext context) {
  std::erase_if(places_, [context = context](place const& each) { return each.handle == context; });
  std::erase_if(streams_, [&](queue const& each) { return each.context == context; });
  std::vector<running> const all = capturing_;
  for (running const& each : all) {
    if (each.context == context) capture_ended(each.id, nullptr);
  }
  std::erase_if(events_, [&](mark const& each) { return each.context == context; });
  std::erase_if(graphs_, [&](recorded const& each) { return each.context == context; });
  unsigned tried = 0;
  for (std::size_t i = 0; i < blocks_.size();) {
    if (blocks_[i].context != context) {
      ++i;
      continue;
    }
    block const gone = blocks_[i];
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
    if (gone.made == kind::plain && !anything_captures() && tried++ < 2) try_dead(gone);
  }
}

// Said at once, before anything else can be given the same address.
void session::try_dead(block const& gone) {
  switch (below(5)) {
    case 0:
      said(cuMemFree(gone.address), "cuMemFree %s, which is gone", gone.name.c_str());
      break;
    case 1:
      said(cuMemFreeAsync(gone.address, CU_STREAM_PER_THREAD), "cuMemFreeAsync %s, which is gone",
           gone.name.c_str());
      break;
    case 2:
      said(cuMemFreeHost(reinterpret_cast<void*>(gone.address)), "cuMemFreeHost %s, which is gone",
           gone.name.c_str());
      break;
    default: {
      constexpr unsigned untouched = 0x77;
      CUdeviceptr base = untouched;
      std::size_t bytes = untouched;
      unsigned type = untouched;
      said(cuMemGetAddressRange(&base, &bytes, gone.address), "cuMemGetAddressRange %s, which is gone",
           gone.name.c_str());
      bool const left = base == untouched && bytes == untouched;
      char const* const range = left ? "left alone" : base == 0 && bytes == 0 ? "zeroed" : "written";
      said(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, gone.address), "memory type of it");
      say("  the range was %s, the type %s", range, type == untouched ? "left alone" : "written");
    }
  }
}

// By a thread of its own: the stack of contexts of this one is part of the program.
void session::check() {
  std::thread([this] {
    for (place const& each : places_) {
      if (number_of(each.handle) == 0) say("BOOKS %s has ended", each.name.c_str());
    }
    for (queue const& each : streams_) {
      cuuint64_t const id = number_of_capture(each.handle);
      bool const known = std::any_of(capturing_.begin(), capturing_.end(),
                                     [id](running const& one) { return one.id == id; });
      if (id != 0 && id != invalidated && !known) say("BOOKS %s captures", each.name.c_str());
    }
    for (running const& each : capturing_) {
      cuuint64_t const id = number_of_capture(each.origin.handle);
      if (each.origin.context != nullptr && id != each.id && id != invalidated)
        say("BOOKS %s captures no longer", each.origin.name.c_str());
    }
    for (block const& each : blocks_) {
      if (each.made == kind::of_graph) continue;  // nobody knows of it but its capture, and launches
      CUdeviceptr base = 0;
      std::size_t bytes = 0;
      if (cuCtxSetCurrent(each.context) != CUDA_SUCCESS) {
        say("BOOKS the context of %s has ended", each.name.c_str());
      } else if (cuMemGetAddressRange(&base, &bytes, each.address) != CUDA_SUCCESS || base != each.address ||
                 bytes != each.bytes) {
        say("BOOKS %s is gone", each.name.c_str());
      }
    }
  }).join();
}

}  // namespace transcript
