// See session.hpp. Here: streams and events come, go and wait. What only time decides (whether work is done)
// is not said.
#include <algorithm>

#include "tests/integration/random/transcript/session.hpp"

namespace transcript {

void session::create_stream() {
  if (streams_.size() > 12) return;
  queue made{fresh('s'), nullptr, current()};
  unsigned const flags = one_in(20) ? below(8) : below(2);
  bool const with_priority = one_in(3);
  CUresult const code = with_priority ? said(cuStreamCreateWithPriority(&made.handle, flags, -1),
                                             "cuStreamCreateWithPriority %s, %u", made.name.c_str(), flags)
                                      : said(cuStreamCreate(&made.handle, flags), "cuStreamCreate %s, %u",
                                             made.name.c_str(), flags);
  if (code == CUDA_SUCCESS) streams_.push_back(made);
}

void session::destroy_stream() {
  if (streams_.empty()) return;
  if (!tame_ && one_in(12)) {
    CUstream const bad[] = {nullptr, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD,
                            reinterpret_cast<CUstream>(0x5000)};
    unsigned const pick = below(4);
    return void(said(cuStreamDestroy(bad[pick]), "cuStreamDestroy of no stream %u", pick));
  }
  std::size_t const pick = below(static_cast<unsigned>(streams_.size()));
  queue const gone = streams_[pick];
  auto const captured = std::find_if(capturing_.begin(), capturing_.end(),
                                     [&](running const& each) { return each.origin.handle == gone.handle; });
  if (said(cuStreamDestroy(gone.handle), "cuStreamDestroy %s", gone.name.c_str()) != CUDA_SUCCESS) return;
  if (captured != capturing_.end()) capture_ended(captured->id, nullptr);
  streams_.erase(streams_.begin() + static_cast<std::ptrdiff_t>(pick));
  if (!tame_ && one_in(4)) {
    CUdeviceptr left = 0;
    said(cuMemAllocAsync(&left, 512, gone.handle), "cuMemAllocAsync on %s, which is gone", gone.name.c_str());
  }
}

void session::observe_stream() {
  queue const on = some_stream();
  unsigned flags = 99;
  int priority = 99;
  CUcontext of = nullptr;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  switch (below(5)) {
    case 0:
      said(cuStreamGetFlags(on.handle, &flags), "cuStreamGetFlags %s", on.name.c_str());
      return say("  %u", flags);
    case 1:
      said(cuStreamGetPriority(on.handle, &priority), "cuStreamGetPriority %s", on.name.c_str());
      return say("  %d", priority);
    case 2:
      said(cuStreamGetCtx(on.handle, &of), "cuStreamGetCtx %s", on.name.c_str());
      return say("  %s", name_of(of).c_str());
    case 3:
      return void(said(timeless(cuStreamQuery(on.handle)), "cuStreamQuery %s", on.name.c_str()));
    default:
      said(cuStreamIsCapturing(on.handle, &status), "cuStreamIsCapturing %s", on.name.c_str());
      say("  status %u", static_cast<unsigned>(status));
  }
}

void session::wait_for_stream() {
  queue const on = some_stream();
  said(cuStreamSynchronize(on.handle), "cuStreamSynchronize %s", on.name.c_str());
}

void session::create_event() {
  if (events_.size() > 8) return;
  mark made{fresh('e'), nullptr, current()};
  unsigned const flags = one_in(20) ? below(16) : 2u;
  if (said(cuEventCreate(&made.handle, flags), "cuEventCreate %s, %u", made.name.c_str(), flags) == 0) {
    events_.push_back(made);
  }
}

void session::destroy_event() {
  if (events_.empty()) return;
  std::size_t const pick = below(static_cast<unsigned>(events_.size()));
  said(cuEventDestroy(events_[pick].handle), "cuEventDestroy %s", events_[pick].name.c_str());
  events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(pick));
}

void session::record_event() {
  std::string name;
  CUevent const e = some_event(name);
  if (e == nullptr) return;
  queue const on = some_stream();
  switch (below(8)) {
    case 0:
      return void(said(timeless(cuEventQuery(e)), "cuEventQuery %s", name.c_str()));
    case 1:
      return void(said(cuEventSynchronize(e), "cuEventSynchronize %s", name.c_str()));
    default:
      if (said(cuEventRecord(e, on.handle), "cuEventRecord %s on %s", name.c_str(), on.name.c_str()) == 0)
        event_recorded(e, capture_of(on.handle));
  }
}

void session::wait_event() {
  std::string name;
  CUevent const e = some_event(name);
  if (e == nullptr) return;
  queue const on = some_stream();
  said(cuStreamWaitEvent(on.handle, e, 0), "cuStreamWaitEvent %s, %s", on.name.c_str(), name.c_str());
}

void session::context_event() {
  std::string name;
  CUevent const e = some_event(name);
  place const* const of = some_place();
  if (e == nullptr || of == nullptr) return;
  if (one_in(2)) {
    if (said(cuCtxRecordEvent(of->handle, e), "cuCtxRecordEvent %s, %s", of->name.c_str(), name.c_str()) == 0)
      event_recorded(e, 0);
  } else {
    said(cuCtxWaitEvent(of->handle, e), "cuCtxWaitEvent %s, %s", of->name.c_str(), name.c_str());
  }
}

}  // namespace transcript
