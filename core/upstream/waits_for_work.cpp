// See waits_for_work.hpp.
#include "core/upstream/waits_for_work.hpp"

#include <new>

namespace gpumem::upstream {

void waits_for_work::release(resource::extent const& memory, CUstream) noexcept {
  release_what_waits();
  if (home_.when.synchronize() == CUDA_SUCCESS) return lost(memory);
  keep(memory);
}

void waits_for_work::keep(resource::extent const& memory) noexcept try {
  std::lock_guard lock(waiting_mutex_);
  waiting_.push_back(memory);
} catch (std::bad_alloc const&) {
  return;  // lost for good: better than memory that goes while work uses it
}

std::uint64_t waits_for_work::release_what_waits() noexcept {
  std::vector<resource::extent> now;
  {
    std::lock_guard lock(waiting_mutex_);
    if (waiting_.empty() || home_.when.capturing()) return 0;
    now.swap(waiting_);
  }
  std::uint64_t bytes = 0;
  bool const done = home_.when.synchronize() == CUDA_SUCCESS;
  for (resource::extent const& memory : now) {
    if (!done) {
      keep(memory);
      continue;
    }
    lost(memory);
    bytes += memory.bytes;
  }
  return bytes;
}

void waits_for_work::forget() noexcept {
  for (resource::extent const& memory : waiting_) lost(memory);
  waiting_.clear();
}

}  // namespace gpumem::upstream
