// The blocks this thread was handed last, by address, with their owners and magazines. Most blocks are
// freed soon, by the thread that asked: they need not be looked up in the map, in six dependent loads. Only
// a hint: an entry is valid while its block is live, mapped and starts at the address; its owner, while no
// segment was removed since. Part of thread_slots, used by the router; one thread.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/mutant.hpp"
#include "core/base/threads/interleave.hpp"
#include "core/space/block_registry.hpp"

namespace gpumem::resource {

class resource;
class magazine;

class recent_blocks {
 public:
  // What is remembered of a block.
  struct found {
    space::handle h = space::none;  // none: ask the map
    resource* owner = nullptr;      // null: ask its segment
    magazine* own = nullptr;        // this thread's, of the owner, for frees without a stream; null: ask it
  };

  // `owner` and `own` may be null. `removals`: of segments, from before the block was asked for, as another
  // thread may end its context meanwhile.
  void remember(std::uint64_t address, space::handle h, resource* owner, magazine* own,
                std::uint32_t removals) noexcept {
    last_[index_of(address)] = {address, h, removals, owner, own};
  }
  found find(space::block_registry& where, std::uint64_t address) const noexcept {
    line const& l = last_[index_of(address)];
    if (l.address != address) return {};
    space::block const& b = where.blocks[l.h];
    auto const is_live = [&b] {
      GPUMEM_MUTANT(recent_address_first) ? base::interleave_surely() : base::interleave();
      return b.now.load(std::memory_order_acquire) == space::state::live && b.is(space::mapped);
    };
    auto const begins_here = [&b, address] { return b.begin() == address; };
    // The handle may name another block by now, or may be about to: one that nobody has keeps its last
    // address. So the address comes last: a live block had its own before it was live, and nothing else gets
    // this one, which the caller has.
    if (GPUMEM_MUTANT(recent_address_first) ? !begins_here() || !is_live() : !is_live() || !begins_here())
      return {};
    if (l.removals != where.segments.removals()) return {.h = l.h};
    return {l.h, l.owner, l.own};
  }

 private:
  // One block, by its address.
  struct alignas(32) line {
    std::uint64_t address = 0;  // no block has this
    space::handle h = space::none;
    std::uint32_t removals = 0;
    resource* owner = nullptr;
    magazine* own = nullptr;
  };
  static constexpr unsigned index_bits = 6;
  static std::size_t index_of(std::uint64_t address) noexcept {
    return (address >> 9) * 0x9e3779b97f4a7c15ull >> (64 - index_bits);
  }
  std::array<line, 1u << index_bits> last_{};
};

}  // namespace gpumem::resource
