// See foreign_work.hpp.
#include "core/stream_order/foreign_work.hpp"

#include <algorithm>
#include <new>

#include "core/base/mutant.hpp"
#include "core/driver/question.hpp"
#include "core/stream_order/epochs.hpp"
#include "core/stream_order/watched_calls.hpp"

namespace gpumem::stream_order {

bool foreign_work::add(epoch_id from, epochs const& other, CUstream stream) noexcept {
  if (GPUMEM_MUTANT(foreign_work_ignored)) return true;
  if (driver::real.cuEventRecord == nullptr) return false;
  scoped_context const there = other.enter();
  if (!there.is_there()) return false;
  // Frees of one epoch on one stream share the event of the last of them; where there are many, all of them.
  bool const shares = all_.size() >= many;
  auto const same = std::find_if(all_.begin(), all_.end(), [&](awaited const& one) {
    return (shares || one.from == from) && one.stream == stream && one.other == &other &&
           one.life == other.life();
  });
  // The thread's own stream is another one on each thread.
  if (same != all_.end() && stream != CU_STREAM_PER_THREAD)
    return driver::asked(driver::real.cuEventRecord, same->event, stream) == CUDA_SUCCESS;
  if (all_.size() >= most) return false;
  CUevent event = nullptr;
  if (driver::asked(driver::real.cuEventCreate, &event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
    return false;
  awaited const made{from, event, stream, &other, other.life()};
  try {
    if (driver::asked(driver::real.cuEventRecord, event, stream) == CUDA_SUCCESS) {
      all_.push_back(made);
      count_.store(all_.size(), std::memory_order_release);
      return true;
    }
  } catch (std::bad_alloc const&) {
  }
  driver::real.cuEventDestroy_v2(event);
  return false;
}

epoch_id const* foreign_work::oldest_waiting(epoch_id last) noexcept {
  while (!all_.empty() && static_cast<std::int32_t>(last - all_.front().from) >= 0) {
    if (!is_over(all_.front())) return &all_.front().from;
    drop(all_.front());
    all_.erase(all_.begin());
    count_.store(all_.size(), std::memory_order_release);
  }
  return nullptr;
}

void foreign_work::clear() noexcept {
  for (awaited const& one : all_) drop(one);
  all_.clear();
  count_.store(0, std::memory_order_release);
}

// A context that may be ending is not asked about.
bool foreign_work::is_over(awaited const& one) noexcept {
  if (one.other->life() != one.life) return true;
  scoped_context const there = one.other->enter();
  if (!there.is_there()) return one.other->life() != one.life;
  CUresult const code = driver::real.cuEventQuery(one.event);
  // With a context that is lost, or gone, its work is.
  return code == CUDA_SUCCESS || driver::is_sticky(code) || driver::is_of_no_context(code);
}

void foreign_work::drop(awaited const& one) noexcept {
  if (one.other->life() != one.life) return;  // it went with its context
  scoped_context const there = one.other->enter();
  if (there.is_there()) driver::real.cuEventDestroy_v2(one.event);
}

}  // namespace gpumem::stream_order
