// Memory of a suballocator in whole segments, over any source: one is added when nothing idle fits, and goes
// back when it is empty. Called as backing.hpp says.
#pragma once

#include "core/resource/pools/backing/backing.hpp"
#include "core/resource/pools/backing/excess.hpp"
#include "core/resource/pools/backing/regrowth.hpp"

namespace gpumem::resource {

class segment_backing final : public backing {
 public:
  using backing::backing;

  void prepare(pool_lock& held) override;
  space::handle grow(pool_lock& held, growth_request const& wanted) override;
  std::uint64_t release_empty(pool_lock& held, std::uint64_t keep_idle, bool may_wait) noexcept override;
  void release_surplus(pool_lock& held, std::uint64_t until) noexcept override;
  bool has_due(due_memory const& due) noexcept override { return find_due(due) != nullptr; }
  bool release_due(pool_lock& held, due_memory const& due, going_back& age) noexcept override;

 private:
  // Enough stays without it.
  bool may_go(space::segment const& s) const noexcept;
  // An empty segment that is due, and without which enough stays; null: none.
  space::segment* find_due(due_memory const& due) noexcept;
  // Bytes to ask for; at least `bytes`, which fit below the maximum.
  std::uint64_t size_for(std::uint64_t bytes, growth_request const& wanted) const noexcept;
  // Nothing says how much a growth is to be.
  bool may_take_more(growth_request const& wanted) const noexcept;
  // Bytes to ask for instead, where the driver would be left with few that the pool needs again soon; 0: no
  // more.
  std::uint64_t with_remainder(pool_lock& held, std::uint64_t bytes, growth_request const& wanted) noexcept;
  // Waits, with the mutex given up, before a segment goes back: the driver would, and for ever where a kernel
  // waits for this thread.
  bool is_gpu_done(pool_lock& held, std::uint64_t bytes) noexcept;
  // What goes before a growth by `bytes` below all bounds. Nothing where a configuration says what stays.
  excess::remedy too_much(pool_lock& held, std::uint64_t bytes, growth_request const& wanted) noexcept;
  // Until segments of so many bytes are empty, and for so long at most. False: the GPU gets nowhere.
  bool wait_for_excess(pool_lock& held, std::uint64_t bytes, std::uint64_t wait_ns) noexcept;
  // What a growth has of too much that went before it.
  struct eased {
    std::uint64_t comes_back = 0;  // bytes that it takes as one
    std::uint64_t waited_ns = 0;   // where natively it would not have
    std::uint64_t since = 0;       // when it began to give back
  };
  eased ease(pool_lock& held, std::uint64_t bytes, growth_request const& wanted,
             excess::remedy const& too) noexcept;
  // Whether the GPU has not done all that it was given.
  bool has_work_left(pool_lock& held) noexcept;
  // Gives so many bytes of empty segments back, for so long at most; bytes given back.
  std::uint64_t release_excess(pool_lock& held, std::uint64_t bytes, std::uint64_t most_ns) noexcept;
  // Asks the source for `size` bytes, and for `bytes` where it has no more. Throws what it throws.
  extent reserve(pool_lock& held, std::uint64_t size, std::uint64_t bytes, growth_request const& wanted,
                 in_hand& hand);
  // The segment, one idle block. Throws where the tables are full; the memory is then given back.
  space::segment& add(pool_lock& held, extent const& memory);

  regrowth regrowth_;
  excess excess_;
};

}  // namespace gpumem::resource
