// See cache_set.hpp.
#include "core/resource/pools/cache/cache_set.hpp"

#include <new>

namespace gpumem::resource {

namespace {

using lock = std::lock_guard<base::adaptive_mutex>;

// Indices into thread_slots. A set keeps its own for good, with the threads' magazines that stand there: it
// serves one context after the other.
std::atomic<std::uint64_t> free_indices{~std::uint64_t{0}};

std::size_t take_index() noexcept {
  std::uint64_t seen = free_indices.load(std::memory_order_relaxed);
  while (seen != 0) {
    if (free_indices.compare_exchange_weak(seen, seen & (seen - 1), std::memory_order_relaxed)) {
      return static_cast<std::size_t>(__builtin_ctzll(seen));
    }
  }
  return thread_slots::most;
}

}  // namespace

cache_set::cache_set(base::adaptive_mutex& mutex, bool one_for_all) noexcept
    : mutex_(mutex), one_for_all_(one_for_all), index_(one_for_all ? thread_slots::most : take_index()) {}

// Only of a chain that could not be built: nobody has looked for a magazine here.
cache_set::~cache_set() {
  if (index_ < thread_slots::most) free_indices.fetch_or(1ull << index_, std::memory_order_relaxed);
}

void cache_set::forget_all() noexcept {
  free_indices.store(~std::uint64_t{0}, std::memory_order_relaxed);
}

magazine* cache_set::find_or_make(stream_order::slot s) noexcept {
  if (magazine* const known = find(s); known != nullptr) return known;
  if (s == stream_order::no_slot && !one_for_all_) return make_for_thread();
  return make_for_stream(place_of(s));
}

magazine* cache_set::add() noexcept try {
  made_.push_back(std::make_unique<magazine>());
  made_.back()->in_use = true;
  limit(*made_.back());
  return made_.back().get();
} catch (std::bad_alloc const&) {
  return nullptr;
}

magazine* cache_set::make_for_thread() noexcept {
  if (index_ >= thread_slots::most) return nullptr;
  thread_slots* const slots = attach_thread();
  if (slots == nullptr) return nullptr;
  lock held(mutex_);
  magazine* own = nullptr;
  for (auto const& m : made_) {
    if (!m->in_use) own = m.get();
  }
  if (own == nullptr) own = add();
  if (own == nullptr) return nullptr;
  own->in_use = true;
  own->left_behind = false;
  own->belongs_to_this_thread();
  slots->entries[index_] = {this, own};
  return own;
}

// In use by the stream slot, for good.
magazine* cache_set::make_for_stream(stream_order::slot s) noexcept {
  attach_thread();
  lock held(mutex_);
  if (magazine* const made = of_stream(s); made != nullptr) return made;
  magazine* const own = add();
  if (own == nullptr) return nullptr;
  own->stream = s;
  own->belongs_to_this_thread();  // most streams are one thread's
  by_stream_[s].store(own, std::memory_order_release);
  return own;
}

std::size_t cache_set::count(stream_order::slot slots) const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(made_, [slots](auto const& m) {
    return m->stream != stream_order::no_slot ? m->stream < slots : !m->left_behind;
  }));
}

void cache_set::hand_back(magazine* m) noexcept {
  lock held(mutex_);
  m->in_use = false;
}

}  // namespace gpumem::resource
