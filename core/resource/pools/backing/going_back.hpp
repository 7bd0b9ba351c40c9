// When a suballocator looks for memory that may go back to its source, and from which epoch on that is too
// young. Time is kept as marks: numbers of epochs with the moment at which they ended, so that the epoch of a
// free tells its age and a hit reads no clock. Used under the suballocator's mutex, but for may_be_due().
// Makes no call.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "core/base/clock.hpp"
#include "core/resource/pools/backing/earned_sizes.hpp"
#include "core/resource/pools/backing/idle_floor.hpp"
#include "core/space/blocks/block.hpp"

namespace gpumem::resource {

class going_back {
 public:
  static constexpr std::uint64_t never = ~std::uint64_t{0};

  // `release_after`: nanoseconds, or never.
  explicit going_back(std::uint64_t release_after) noexcept
      : after_(release_after),
        pace_(release_after == never       ? ~std::uint32_t{0}
              : release_after < 20'000'000 ? 0
                                           : few_ticks) {}

  bool works() const noexcept { return after_ != never; }
  std::uint64_t after() const noexcept { return after_; }

  // A look may be due; asked on slow paths, where a clock would cost too much: it is read every few million
  // ticks.
  bool may_be_due() noexcept {
    // The lower half, which is cheaper: a look that its wrap hides is asked for again soon.
    auto const now = static_cast<std::uint32_t>(base::ticks());
    if (now - asked_.load(std::memory_order_relaxed) < pace_) [[likely]]
      return false;
    asked_.store(now, std::memory_order_relaxed);
    return is_due(base::now_ns());
  }
  bool is_due(std::uint64_t now) const noexcept {
    return works() && now >= next_.load(std::memory_order_relaxed);
  }
  // The next look comes at once, or when so much time has gone by.
  void hurry() noexcept { next_.store(0, std::memory_order_relaxed); }
  void next_look(std::uint64_t now, std::uint64_t in) noexcept {
    next_.store(now + in, std::memory_order_relaxed);
  }
  // Between two looks that found nothing to do at once.
  std::uint64_t interval() const noexcept { return after_ / 8; }

  // True once in an interval: the caller ends the open epoch, and notes which that was.
  bool wants_mark(std::uint64_t now) const noexcept {
    return count_ == 0 || now - marks_[(count_ - 1) % marks_.size()].at >= interval();
  }
  void note(std::uint64_t now, space::epoch_id ended) noexcept {
    marks_[count_++ % marks_.size()] = {now, ended};
  }
  // Frees up to this epoch are older than release_after; none: that cannot be told of any yet.
  std::optional<space::epoch_id> old_enough(std::uint64_t now) const noexcept {
    for (std::size_t i = count_; i > 0 && i + marks_.size() > count_; --i) {
      mark const& m = marks_[(i - 1) % marks_.size()];
      if (now - m.at >= after_) return m.ended;
    }
    return std::nullopt;
  }

  // How long the looks of now may take: a twentieth of the time since the last ones.
  std::uint64_t time_for_it(std::uint64_t now) noexcept {
    std::uint64_t const since = now - std::min(now, looked_at_);
    looked_at_ = now;
    return std::clamp<std::uint64_t>(since / 20, 1'000'000, 50'000'000);
  }

  // The GPU has work, whose end the driver would wait for: memory goes back beside it only after a while, as
  // every free of the program's waits for it natively.
  bool may_wait_for_gpu(std::uint64_t now) noexcept {
    if (busy_since_ == 0) busy_since_ = now;
    return now - busy_since_ >= after_;
  }
  void gpu_was_idle() noexcept { busy_since_ = 0; }

  // Whether all magazines are worth emptying: blocks of one size take turns there, and so all look young
  // although few are in use. Where that freed no segment it is done less often.
  bool wants_all(std::uint64_t now, std::uint64_t cached, std::uint64_t idle,
                 std::uint64_t reserved) noexcept {
    if (idle > idle_at_sweep_ + worth_it) futile_ = 0;
    if (cached + idle < worth_it || cached + idle < reserved / 4) return false;
    if (now - swept_at_ < after_ << futile_) return false;
    swept_at_ = now;
    idle_at_sweep_ = idle;
    futile_ = std::min(futile_ + 1, 4u);
    return true;
  }
  void was_worth_it() noexcept { futile_ = 0; }

  earned_sizes earned;
  idle_floor floor;

 private:
  struct mark {
    std::uint64_t at = 0;  // nanoseconds
    space::epoch_id ended = 0;
  };
#if defined(__x86_64__)
  static constexpr std::uint32_t few_ticks = 1u << 22;  // 1 to 2 ms
#else
  static constexpr std::uint32_t few_ticks = 1u << 16;  // 0.07 ms at 1 GHz, 2.6 ms at 25 MHz
#endif
  static constexpr std::uint64_t worth_it = 64ull << 20;

  std::uint64_t const after_;
  std::uint32_t const pace_;
  std::atomic<std::uint32_t> asked_{0};
  std::atomic<std::uint64_t> next_{0};
  std::array<mark, 32> marks_{};
  std::size_t count_ = 0;
  std::uint64_t looked_at_ = 0;
  std::uint64_t busy_since_ = 0;
  std::uint64_t swept_at_ = 0;
  std::uint64_t idle_at_sweep_ = 0;
  unsigned futile_ = 0;
};

}  // namespace gpumem::resource
