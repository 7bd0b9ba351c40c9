// The events of the scripted driver: of contexts, done in the order in which they were recorded, and of
// streams.
#include <algorithm>

#include "tests/unit/fake_driver/fake_driver.hpp"

namespace gpumem::tests {

void fake_driver::finish_all() {
  std::lock_guard lock(mutex);
  for (CUevent const e : recorded_) events[e] = true;
  recorded_.clear();
}

void fake_driver::finish(CUevent upto) {
  std::lock_guard lock(mutex);
  while (!recorded_.empty() && !events[upto]) {
    events[recorded_.front()] = true;
    recorded_.erase(recorded_.begin());
  }
}

void fake_driver::finish_oldest() {
  std::lock_guard lock(mutex);
  if (recorded_.empty()) return;
  events[recorded_.front()] = true;
  recorded_.erase(recorded_.begin());
}

// A context event is forbidden in every capture mode.
CUresult fake_driver::record(CUevent event) {
  CUresult const code = enter("cuCtxRecordEvent");
  run(at_record_);
  std::lock_guard lock(mutex);
  if (!capturing.empty()) {
    hurt_ = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (code != CUDA_SUCCESS) return code;
  recorded_.erase(std::remove(recorded_.begin(), recorded_.end(), event), recorded_.end());
  events[event] = !manual_;
  if (manual_) recorded_.push_back(event);
  return CUDA_SUCCESS;
}

CUresult fake_driver::query(CUevent event) {
  if (CUresult const code = unsafe("cuEventQuery"); code != CUDA_SUCCESS) return code;
  run(at_query_);
  std::lock_guard lock(mutex);
  auto const found = events.find(event);
  if (found == events.end()) return CUDA_ERROR_INVALID_HANDLE;
  return found->second ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult fake_driver::record_on_stream(CUevent event) {
  if (CUresult const code = unsafe("cuEventRecord"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(mutex);
  events[event] = !manual_;
  if (manual_) of_streams_.insert(event);
  return CUDA_SUCCESS;
}

bool fake_driver::has_work(CUstream stream) {
  std::lock_guard lock(mutex);
  return manual_ && !idle_streams.contains(stream);
}

void fake_driver::finish_streams() {
  std::lock_guard lock(mutex);
  for (CUevent const e : of_streams_) events[e] = true;
  of_streams_.clear();
}

}  // namespace gpumem::tests
