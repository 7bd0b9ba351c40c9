// See streams.hpp.
#include "core/stream_order/streams.hpp"

#include <algorithm>
#include <new>

namespace gpumem::stream_order {

slot streams::slot_of(std::uint64_t id, CUstream handle) noexcept try {
  base::lock_guard lock(mutex_);
  if (handle != nullptr) ids_[handle] = id;
  if (auto const found = by_id_.find(id); found != by_id_.end()) return found->second;
  if (spare_.empty() && used_ >= most_slots) return no_slot;
  spare_.reserve(spare_.size() + 1);
  slot const s = spare_.empty() ? used_ : spare_.back();
  by_id_.emplace(id, s);
  if (spare_.empty()) {
    ++used_;
  } else {
    spare_.pop_back();
  }
  return s;
} catch (std::bad_alloc const&) {
  return no_slot;
}

slot streams::forget(std::uint64_t id) noexcept {
  base::lock_guard lock(mutex_);
  auto const found = by_id_.find(id);
  if (found == by_id_.end()) return no_slot;
  slot const s = found->second;
  by_id_.erase(found);
  return s;
}

slot streams::forget(CUstream handle) noexcept {
  std::uint64_t id = 0;
  {
    base::lock_guard lock(mutex_);
    auto const found = ids_.find(handle);
    if (found == ids_.end()) return no_slot;
    id = found->second;
    ids_.erase(found);
  }
  return forget(id);
}

CUstream streams::handle_of(slot s) noexcept {
  if (!handles_last_.load(std::memory_order_relaxed)) return nullptr;
  base::lock_guard lock(mutex_);
  auto const of_slot = std::ranges::find(by_id_, s, [](auto const& each) { return each.second; });
  if (of_slot == by_id_.end()) return nullptr;
  auto const named = std::ranges::find(ids_, of_slot->first, [](auto const& each) { return each.second; });
  return named != ids_.end() ? named->first : nullptr;
}

void streams::begin_again() noexcept {
  base::lock_guard lock(mutex_);
  by_id_.clear();
  ids_.clear();
  spare_.clear();
  used_ = 1;
}

void streams::recycle(slot s) noexcept try {
  base::lock_guard lock(mutex_);
  if (s != no_slot) spare_.push_back(s);
} catch (std::bad_alloc const&) {
}

}  // namespace gpumem::stream_order
