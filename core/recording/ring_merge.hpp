// The events of all rings in the order of their stamps, up to a horizon. What was taken out is told to the
// rings only by done(), when it is safe elsewhere. One thread at a time.
#pragma once

#include <algorithm>
#include <array>

#include "core/recording/area.hpp"

namespace gpumem::recording {

class ring_merge {
 public:
  explicit ring_merge(area& of) noexcept : area_(of) {}

  // Events with an earlier stamp than `horizon`. All of them must have been published.
  void begin(std::uint64_t horizon) noexcept {
    horizon_ = horizon;
    count_ = 0;
    std::size_t const used =
        std::min<std::size_t>(area_.head.rings_used.load(std::memory_order_acquire), max_rings);
    for (std::size_t i = 0; i < used; ++i) {
      std::uint64_t const tail = area_.rings[i].tail.load(std::memory_order_relaxed);
      std::uint64_t const head = area_.rings[i].head.load(std::memory_order_acquire);
      ends_[i] = tail;
      if (head == tail || head - tail > ring_events) continue;
      cursors_[count_] = {tail, head, stamp_at(i, tail), static_cast<std::uint8_t>(i)};
      if (cursors_[count_].stamp < horizon_) ++count_;
    }
    used_ = used;
  }

  // The next event; null: that was all. What it points to is good until pop().
  event const* peek() noexcept {
    if (count_ == 0) return nullptr;
    first_ = 0;
    for (std::size_t i = 1; i < count_; ++i) {
      if (comes_before(cursors_[i], cursors_[first_])) first_ = i;
    }
    cursor const& from = cursors_[first_];
    now_ = area_.events[from.ring][from.at % ring_events];
    now_.ring = from.ring;
    return &now_;
  }
  // Takes out what peek() gave.
  void pop() noexcept {
    cursor& from = cursors_[first_];
    ends_[from.ring] = ++from.at;
    bool more = from.at != from.end;
    if (more) {
      from.stamp = stamp_at(from.ring, from.at);
      more = from.stamp < horizon_;
    }
    if (!more) cursors_[first_] = cursors_[--count_];
  }

  // All that was taken out may be overwritten.
  void done() noexcept {
    for (std::size_t i = 0; i < used_; ++i) area_.rings[i].tail.store(ends_[i], std::memory_order_release);
  }

 private:
  struct cursor {
    std::uint64_t at = 0, end = 0;
    std::uint64_t stamp = 0;
    std::uint8_t ring = 0;
  };

  std::uint64_t stamp_at(std::size_t ring, std::uint64_t at) const noexcept {
    return area_.events[ring][at % ring_events].stamp;
  }
  // Of one moment, as a coarse clock has them: what gives an address back comes before what takes it.
  bool comes_before(cursor const& one, cursor const& other) const noexcept {
    if (one.stamp != other.stamp) return one.stamp < other.stamp;
    return is_given_back(area_.events[one.ring][one.at % ring_events].what) &&
           !is_given_back(area_.events[other.ring][other.at % ring_events].what);
  }

  area& area_;
  std::uint64_t horizon_ = 0;
  std::size_t count_ = 0, used_ = 0, first_ = 0;
  std::array<cursor, max_rings> cursors_{};
  std::array<std::uint64_t, max_rings> ends_{};
  event now_{};
};

}  // namespace gpumem::recording
