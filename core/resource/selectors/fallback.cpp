// See fallback.hpp.
#include "core/resource/selectors/fallback.hpp"

#include <array>
#include <cstdio>
#include <new>
#include <optional>

#include "core/driver/error.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::resource {

namespace {

// Asks one branch after the other; `ask(index)` throws what the branch throws. The answer is the index that
// served. When all refuse the report hears of the first and the last of them.
template <typename Ask>
std::size_t first_that_serves(std::size_t branches, Ask ask) {
  std::optional<driver::allocation_failed> first;
  for (std::size_t i = 0;; ++i) {
    try {
      ask(i);
      return i;
    } catch (driver::allocation_failed const& failed) {
      if (failed.code() != CUDA_ERROR_OUT_OF_MEMORY) throw;
      if (!first) first = failed;
      if (i + 1 < branches) continue;
      char both[220];
      std::snprintf(both, sizeof both, "%.105s; then %.105s", first->what(), failed.what());
      throw driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, "fallback", both, failed.kind());
    }
  }
}

}  // namespace

void spill::took(std::size_t node, std::uint64_t bytes) noexcept {
  static constinit std::array<std::atomic<std::uint64_t>, stats::max_nodes> highest{};  // of all contexts
  std::uint64_t const now = now_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::uint64_t most = highest[node].load(std::memory_order_relaxed);
  while (now > most && !highest[node].compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
  if (now > most) stats::add(stats::local().nodes[node].most, now - most);  // threads add up to the highest
}

space::handle fallback::serve(allocation_request const& request) {
  space::handle h = space::none;
  std::size_t const served = first_that_serves(branches_.size(), [&](std::size_t i) {
    stats::add(stats::local().nodes[branches_[i].node].requests, 1);
    try {
      h = branches_[i].top->allocate(request);
    } catch (driver::allocation_failed const&) {
      stats::add(stats::local().nodes[branches_[i].node].failed, 1);
      throw;
    }
  });
  std::uint64_t const bytes = blocks()[h].bytes();
  stats::add(served == 0 ? count().hits : count().upstream, 1);
  stats::node_counters& counters = stats::local().nodes[branches_[served].node];
  stats::add(counters.hits, 1);
  stats::add(counters.bytes_in, bytes);
  if (served > 0) {
    spills_[served].took(branches_[served].node, bytes);
    stats::add(count_device().rung_fallback, 1);
  }
  return h;
}

std::size_t fallback::branch_of(space::handle h) noexcept {
  resource const* top = &owner_of(home_.where, h);
  while (top != nullptr && top->parent(h) != this) top = top->parent(h);
  std::size_t i = 0;
  while (i < branches_.size() && branches_[i].top != top) ++i;
  return i;
}

void fallback::given_back(space::handle h, free_order const& order) noexcept {
  std::uint64_t const bytes = bytes_of(h, order);
  std::size_t const from = branch_of(h);
  if (from == branches_.size()) return;  // of a context that has ended: another chain has the handle by now
  stats::add(stats::local().nodes[branches_[from].node].bytes_out, bytes);
  if (from > 0) spills_[from].gave(bytes);
}

extent fallback_source::reserve(allocation_request const& request) {
  extent memory;
  stats::add(stats::local().nodes[node_].requests, 1);
  std::size_t served = 0;
  try {
    served = first_that_serves(branches_.size(), [&](std::size_t i) {
      stats::add(stats::local().nodes[branches_[i].node].requests, 1);
      try {
        memory = branches_[i].segments->reserve(request);
      } catch (driver::allocation_failed const&) {
        stats::add(stats::local().nodes[branches_[i].node].failed, 1);
        throw;
      }
    });
  } catch (driver::allocation_failed const&) {
    stats::add(stats::local().nodes[node_].failed, 1);
    throw;
  }
  if (served > 0) {
    try {
      base::lock_guard const held(mutex_);
      later_.emplace(memory.address, served);
    } catch (std::bad_alloc const&) {
      branches_[served].segments->release(memory, {});
      throw driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, "fallback", "no host memory for its tables",
                                      driver::refused_by::tables);
    }
  }
  stats::shard& mine = stats::local();
  stats::add(served == 0 ? mine.nodes[node_].hits : mine.nodes[node_].upstream, 1);
  stats::add(mine.nodes[node_].bytes_in, memory.bytes);
  stats::node_counters& counters = mine.nodes[branches_[served].node];
  stats::add(counters.hits, 1);
  stats::add(counters.bytes_in, memory.bytes);
  if (served > 0) {
    spills_[served].took(branches_[served].node, memory.bytes);
    stats::add(mine.devices[home_.device_slot].rung_fallback, 1);
  }
  return memory;
}

std::size_t fallback_source::take_note(extent const& memory) noexcept {
  std::size_t from = 0;
  {
    base::lock_guard const held(mutex_);
    if (auto const found = later_.find(memory.address); found != later_.end()) {
      from = found->second;
      later_.erase(found);
    }
  }
  stats::shard& mine = stats::local();
  stats::add(mine.nodes[node_].bytes_out, memory.bytes);
  stats::add(mine.nodes[branches_[from].node].bytes_out, memory.bytes);
  if (from > 0) spills_[from].gave(memory.bytes);
  return from;
}

void fallback_source::release(extent const& memory, release_order const& order) noexcept {
  branches_[take_note(memory)].segments->release(memory, order);
}

void fallback_source::lost(extent const& memory) noexcept {
  branches_[take_note(memory)].segments->lost(memory);
}

std::uint64_t fallback_source::trim(give_back_scope scope) noexcept {
  std::uint64_t bytes = 0;
  for (branch const& b : branches_) bytes += b.segments->trim(scope);
  return bytes;
}

}  // namespace gpumem::resource
