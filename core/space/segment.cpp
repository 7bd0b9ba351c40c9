// See segment.hpp.
#include "core/space/segment.hpp"

#include <new>

namespace gpumem::space {

segment* segment_table::add(std::uint64_t base, std::uint64_t bytes, segment_owner* owner) noexcept try {
  std::lock_guard lock(mutex_);
  std::uint32_t index = free_;
  if (index == 0) {
    if (used_ / chunk_size >= chunks_.size()) return nullptr;
    auto& chunk = chunks_[used_ / chunk_size];
    if (chunk.load(std::memory_order_relaxed) == nullptr) {
      chunk.store(new segment*[chunk_size]{}, std::memory_order_release);
    }
    index = used_;
    chunk.load(std::memory_order_relaxed)[index % chunk_size] = new segment;
    ++used_;
  } else {
    free_ = (*this)[index].first;
  }
  segment* s = &(*this)[index];
  *s = segment{.base = base, .bytes = bytes, .owner = owner, .index = index};
  by_address_.emplace(base, s);
  return s;
} catch (std::bad_alloc const&) {
  return nullptr;
}

void segment_table::remove(segment* s) noexcept {
  std::lock_guard lock(mutex_);
  auto const [begin, end] = by_address_.equal_range(s->base);
  for (auto it = begin; it != end; ++it) {
    if (it->second != s) continue;
    by_address_.erase(it);
    break;
  }
  s->owner = nullptr;
  s->first = free_;
  free_ = s->index;
}

segment* segment_table::containing(std::uint64_t address) noexcept {
  std::shared_lock lock(mutex_);
  segment* innermost = nullptr;
  // Nesting is at most as deep as the chain; a segment that begins earlier can only contain, never be inside.
  auto it = by_address_.upper_bound(address);
  for (int looks = 0; it != by_address_.begin() && looks < 8; ++looks) {
    --it;
    segment* s = it->second;
    if (address - s->base >= s->bytes) continue;
    if (innermost == nullptr || s->bytes < innermost->bytes) innermost = s;
  }
  return innermost;
}

}  // namespace gpumem::space
