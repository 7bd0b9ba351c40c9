// See budget.hpp. The lock keeps apart the making of a budget, which starts with what is observed at that
// moment, and all that changes what is observed.
#include "core/resource/adaptors/budget.hpp"

#include <array>
#include <cstdio>
#include <new>

#include "core/base/text/bytes.hpp"
#include "core/base/threads/mutex.hpp"
#include "core/base/threads/undestroyed.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::resource {

constinit std::atomic<budget*> budget::first_{nullptr};

namespace {

struct observing_lock : base::mutex {};

base::mutex& observing() noexcept {
  return base::undestroyed<observing_lock>::get();
}

// Taken by calls that are not routed, and admitted to those under way; by device, under the lock.
constinit std::array<std::uint64_t, stats::max_devices> taken{};

std::uint64_t& taken_on(int device) noexcept {
  return taken[stats::device_slot(device)];
}

}  // namespace

budget* budget::find_or_make(terms const& wanted) noexcept try {
  base::lock_guard const held(observing());
  budget* const first = first_.load(std::memory_order_acquire);
  for (budget* b = first; b != nullptr; b = b->next_) {
    if (b->device_ == wanted.device && b->host_ == wanted.host && b->name_ == wanted.name) return b;
  }
  auto* const made = new budget(wanted, first);
  if (!wanted.host) {
    std::uint64_t const already = taken_on(wanted.device);
    made->note(already);
    made->note_observed(already);
  }
  first_.store(made, std::memory_order_release);
  return made;
} catch (std::bad_alloc const&) {
  return nullptr;
}

// A thread of the parent may have held the lock.
void budget::forget_all() noexcept {
  first_.store(nullptr, std::memory_order_release);
  observing();
  base::undestroyed<observing_lock>::renew();
  taken = {};
}

driver::allocation_failed budget::refusal(std::uint64_t asked) const noexcept {
  std::uint64_t const used = used_.load(std::memory_order_relaxed);
  std::uint64_t const observed = observed_.load(std::memory_order_relaxed);
  auto const shown = [](std::uint64_t bytes) { return base::print_bytes(bytes); };
  char who[64];
  char why[160];
  std::snprintf(who, sizeof who, "limiting \"%s\"", name_.c_str());
  std::snprintf(why, sizeof why, "limit %.16s, in use %.16s, of it seen only %.16s, asked %.16s",
                shown(limit_).view().data(), shown(used).view().data(), shown(observed).view().data(),
                shown(asked).view().data());
  return driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, who, why, driver::refused_by::limit);
}

bool observed_use::admit(int device, std::uint64_t bytes, budget const*& refused) noexcept {
  base::lock_guard const held(observing());
  refused = nullptr;
  budget::each(device, [&](budget& b) {
    if (refused != nullptr) return;
    if (b.take(bytes)) {
      b.note_observed(bytes);
    } else {
      refused = &b;
    }
  });
  if (refused == nullptr) {
    taken_on(device) += bytes;
    return true;
  }
  bool before = true;  // the one that refused, in the same order
  budget::each(device, [&](budget& b) {
    before = before && &b != refused;
    if (!before) return;
    b.give(bytes);
    b.note_observed(-bytes);
  });
  return false;
}

void observed_use::withdraw(int device, std::uint64_t bytes) noexcept {
  base::lock_guard const held(observing());
  taken_on(device) -= bytes;
  budget::each(device, [bytes](budget& b) {
    b.give(bytes);
    b.note_observed(-bytes);
  });
}

void observed_use::hold(int device, std::uint64_t bytes, std::uint64_t admitted) noexcept {
  if (bytes == admitted) return;
  base::lock_guard const held(observing());
  taken_on(device) += bytes - admitted;
  budget::each(device, [=](budget& b) {
    b.note(bytes - admitted);
    b.note_observed(bytes - admitted);
  });
}

void observed_use::let_go(int device, std::uint64_t bytes) noexcept {
  base::lock_guard const held(observing());
  taken_on(device) -= bytes;
  budget::each(device, [bytes](budget& b) {
    b.give(bytes);
    b.note_observed(-bytes);
  });
}

void observed_use::enter(int device, std::uint64_t bytes, bool movable) noexcept {
  auto& gauges = stats::gauges(device);
  stats::gauge_raise(gauges.highest_observed, stats::gauge_add(gauges.observed, bytes));
  if (movable) stats::gauge_add(gauges.movable, bytes);
}

void observed_use::leave(int device, std::uint64_t bytes, bool movable) noexcept {
  auto& gauges = stats::gauges(device);
  stats::gauge_subtract(gauges.observed, bytes);
  if (movable) stats::gauge_subtract(gauges.movable, bytes);
}

}  // namespace gpumem::resource
