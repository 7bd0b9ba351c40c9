// What all resources `limiting` of one name may hold together on one device, over all chains and contexts.
// A budget of a device also counts observed memory, so that no call takes more than is left. take and give
// run on the hit path, any thread: a few relaxed atomic instructions, no lock. Found or made by the
// builder, never destroyed; a forked child starts without any.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/driver/error.hpp"

namespace gpumem::resource {

class budget {
 public:
  // What makes a budget: its name in the configuration, and its limit in bytes.
  struct terms {
    std::string_view name;
    int device = 0;
    std::uint64_t limit = 0;
    bool report_as_total = false;
    bool host = false;  // of host memory: what is observed on the device does not concern it
  };

  // The one of this name, device and kind of memory; the first call sets its limit. Null: no host memory.
  static budget* find_or_make(terms const& wanted) noexcept;
  // Calls `visit` with every budget of the device's own memory.
  template <typename Visit>
  static void each(int device, Visit visit) noexcept {
    for (budget* b = first_.load(std::memory_order_acquire); b != nullptr; b = b->next_) {
      if (b->device_ == device && !b->host_) visit(*b);
    }
  }
  static bool any(int device) noexcept {
    bool found = false;
    each(device, [&found](budget&) { found = true; });
    return found;
  }
  static void forget_all() noexcept;  // in a forked child

  // All or nothing: two requests that fit each by itself never exceed the limit together.
  bool take(std::uint64_t bytes) noexcept {
    std::uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (used > limit_ || bytes > limit_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  // Bytes of take() or note() are free again.
  void give(std::uint64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  // What has happened and cannot be refused any more.
  void note(std::uint64_t bytes) noexcept { used_.fetch_add(bytes, std::memory_order_relaxed); }
  // Of what was taken, these bytes are not routed.
  void note_observed(std::uint64_t bytes) noexcept { observed_.fetch_add(bytes, std::memory_order_relaxed); }

  std::uint64_t limit() const noexcept { return limit_; }
  // Bytes until the limit.
  std::uint64_t left() const noexcept {
    std::uint64_t const used = used_.load(std::memory_order_relaxed);
    return used < limit_ ? limit_ - used : 0;
  }
  // The program is told the limit as the device's size.
  bool report_as_total() const noexcept { return report_as_total_; }

  // Segments are counted, of which some may be idle: giving those back makes room.
  void counts_segments() noexcept { segments_.store(true, std::memory_order_relaxed); }
  bool may_hold_idle() const noexcept { return segments_.load(std::memory_order_relaxed); }

  // Limit, use and wish, as the reason of a refusal.
  driver::allocation_failed refusal(std::uint64_t asked) const noexcept;

 private:
  budget(terms const& wanted, budget* next)
      : name_(wanted.name),
        device_(wanted.device),
        limit_(wanted.limit),
        report_as_total_(wanted.report_as_total),
        host_(wanted.host),
        next_(next) {}

  static std::atomic<budget*> first_;

  std::string const name_;
  int const device_;
  std::uint64_t const limit_;
  bool const report_as_total_;
  bool const host_;
  budget* const next_;
  std::atomic<bool> segments_{false};
  std::atomic<std::uint64_t> observed_{0};
  alignas(64) std::atomic<std::uint64_t> used_{0};  // routed and observed
};

// Memory of a device that is taken without a chain: every budget of the device has to agree. Called before
// and after calls of the driver, most of tens of microseconds, those of pools of half a one.
class observed_use {
 public:
  // Takes the bytes from every budget, or from none: then `refused` says which one was against it.
  static bool admit(int device, std::uint64_t bytes, budget const*& refused) noexcept;
  // The call that was admitted failed.
  static void withdraw(int device, std::uint64_t bytes) noexcept;
  // It succeeded and took `bytes`.
  static void hold(int device, std::uint64_t bytes, std::uint64_t admitted) noexcept;
  // They are free again, for whatever the limits allow.
  static void let_go(int device, std::uint64_t bytes) noexcept;
  // Into the device's ledger, and out of it. `movable`: managed memory, which need not lie on the device.
  static void enter(int device, std::uint64_t bytes, bool movable = false) noexcept;
  static void leave(int device, std::uint64_t bytes, bool movable = false) noexcept;
};

}  // namespace gpumem::resource
