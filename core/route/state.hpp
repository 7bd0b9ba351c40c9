// What the files of core/route share: the one state of this process's router, and the small steps of its hot
// path. Made by start(), never destroyed; a forked child leaves it behind.
#pragma once

#include <array>
#include <atomic>

#include "core/route/contexts.hpp"
#include "core/route/peers.hpp"
#include "core/space/atlas.hpp"

namespace gpumem::route {

struct state {
  space::atlas where;
  peers access;
  contexts known{where, access};
  chain_factory factory = nullptr;
  rule_set* rules = nullptr;  // null: none
  bool synchronize_on_free = false;
  std::array<std::atomic<bool>, 64> own_pool{};  // by device: the program set a pool of its own
  // Moves on when a stream comes or goes: remembered slots of stream handles are then asked for again.
  std::atomic<std::uint64_t> streams_changed{1};

  bool has_own_pool(int device) const noexcept {
    return static_cast<std::size_t>(device) < own_pool.size() &&
           own_pool[static_cast<std::size_t>(device)].load(std::memory_order_relaxed);
  }
};

extern state* present;

// Where a stream belongs: its context, and its slot there; no_slot where the driver cannot name streams
// (before 12.0). `current` names the context of a default stream, and is null with any other. `entry` null:
// the driver must answer.
struct stream_place {
  context_entry* entry = nullptr;
  stream_order::slot slot = stream_order::no_slot;
  bool capturing = false;  // its allocations and frees are graph nodes of the driver's
};
stream_place place_of(state& s, CUstream stream, CUcontext current) noexcept;

// False where the address is no longer of this context, which is being ended.
bool still_of(resource::habitat const& home, CUdeviceptr address) noexcept;

// The answer for a free of what is no live block: pass, or the driver's code where the address lies in a
// segment, whose base the driver would take for an allocation of the program's.
outcome unknown_free(state& s, CUdeviceptr address) noexcept;

// Takes down how much the device holds in all, and the ledger; after reserved memory changed.
void sample(context_entry& entry) noexcept;

}  // namespace gpumem::route
