// The blocks that a thread was handed last, by address, with their owners and its magazines there: most
// blocks are freed soon, by the thread that asked for them, and need not be looked up among all, in six steps
// that wait for each other. A guess, told by the block itself: what is live, begins there and is known to the
// map is the block that the map would find; and its owner is that of the address, as long as no segment was
// removed. Part of thread_slots, kept and asked by the router; one thread.
#pragma once

#include <array>
#include <cstdint>

#include "core/space/block_registry.hpp"

namespace gpumem::resource {

class resource;
class magazine;

class recent_blocks {
 public:
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
    // The handle may name another block by now.
    if (b.begin() != address || b.now.load(std::memory_order_acquire) != space::state::live ||
        !b.is(space::mapped))
      return {};
    if (l.removals != where.segments.removals()) return {.h = l.h};
    return {l.h, l.owner, l.own};
  }

 private:
  struct alignas(32) line {
    std::uint64_t address = 0;  // no block has this
    space::handle h = space::none;
    std::uint32_t removals = 0;
    resource* owner = nullptr;
    magazine* own = nullptr;
  };
  static constexpr unsigned index_bits = 4;
  static std::size_t index_of(std::uint64_t address) noexcept {
    return (address >> 9) * 0x9e3779b97f4a7c15ull >> (64 - index_bits);
  }
  std::array<line, 1u << index_bits> last_{};
};

}  // namespace gpumem::resource
