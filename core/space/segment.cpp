// See segment.hpp.
#include "core/space/segment.hpp"

#include <iterator>
#include <new>

namespace gpumem::space {

segment* segment_table::add(std::uint64_t base, std::uint64_t bytes, segment_owner* owner,
                            bool contextless) noexcept try {
  std::lock_guard lock(mutex_);
  auto depth = static_cast<std::uint32_t>(by_depth_.size());
  while (depth > 0 && !meets(depth - 1, base, bytes)) --depth;
  if (depth == by_depth_.size()) by_depth_.emplace_back();
  std::uint32_t index = free_;
  if (index == 0) {
    if (used_ / chunk_size >= chunks_.size()) return nullptr;
    auto& chunk = chunks_[used_ / chunk_size];
    if (chunk.load(std::memory_order_relaxed) == nullptr) {
      chunk.store(
          new segment* [chunk_size] {}, std::memory_order_release);
    }
    index = used_;
    chunk.load(std::memory_order_relaxed)[index % chunk_size] = new segment;
    ++used_;
  } else {
    free_ = (*this)[index].first;
  }
  segment* s = &(*this)[index];
  s->base = base;
  s->bytes = bytes;
  s->token = 0;
  std::atomic_ref<segment_owner*>(s->owner).store(owner, std::memory_order_release);
  s->first = none;
  s->unproven = false;
  s->least = 0;
  s->index = index;
  s->depth = depth;
  s->position = 0;
  std::atomic_ref<bool>(s->pinned).store(false, std::memory_order_relaxed);
  s->apart = false;
  s->rotates = false;
  s->learnt.store(0, std::memory_order_relaxed);
  s->contextless = contextless;
  by_depth_[depth].emplace(base, s);
  return s;
} catch (std::bad_alloc const&) {
  return nullptr;
}

void segment_table::remove(segment* s) noexcept {
  std::lock_guard lock(mutex_);
  removals_.fetch_add(1, std::memory_order_acq_rel);
  by_depth_[s->depth].erase(s->base);
  s->bytes = 0;
  // The owner stays: a free on another thread may have found a block of it a moment ago, and asks it.
  s->first = free_;
  free_ = s->index;
}

bool segment_table::meets(std::size_t depth, std::uint64_t base, std::uint64_t bytes) const noexcept {
  auto const& level = by_depth_[depth];
  auto const next = level.lower_bound(base);
  if (next != level.end() && next->first - base < bytes) return true;
  return next != level.begin() && base - std::prev(next)->first < std::prev(next)->second->bytes;
}

[[gnu::always_inline]] inline segment* segment_table::in_level(std::map<std::uint64_t, segment*> const& level,
                                                               std::uint64_t address) noexcept {
  auto const next = level.upper_bound(address);
  if (next == level.begin()) return nullptr;
  segment* const s = std::prev(next)->second;
  return address - s->base < s->bytes ? s : nullptr;
}

template <typename Visit>
void segment_table::each_containing(std::uint64_t address, Visit visit) noexcept {
  std::shared_lock lock(mutex_);
  for (auto level = by_depth_.rbegin(); level != by_depth_.rend(); ++level) {
    if (segment* const s = in_level(*level, address); s != nullptr && visit(*s)) return;
  }
}

segment_table::place segment_table::containing(std::uint64_t address) noexcept {
  place found;
  each_containing(address, [&found](segment& s) {
    found = {&s, s.owner};
    return true;
  });
  return found;
}

segment* segment_table::containing(std::uint64_t address, segment_owner const* owner) noexcept {
  segment* found = nullptr;
  each_containing(address, [&](segment& s) { return s.owner == owner && (found = &s) != nullptr; });
  return found;
}

bool segment_table::is_contextless(std::uint64_t address) noexcept {
  std::shared_lock lock(mutex_);
  segment const* const outermost = by_depth_.empty() ? nullptr : in_level(by_depth_.front(), address);
  return outermost != nullptr && outermost->contextless;
}

std::size_t segment_table::owners_of(std::uint64_t address, std::span<segment_owner*> owners) noexcept {
  std::size_t count = 0;
  each_containing(address, [&](segment& s) {
    if (s.owner != nullptr) owners[count++] = s.owner;
    return count == owners.size();
  });
  return count;
}

}  // namespace gpumem::space
