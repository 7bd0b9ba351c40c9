// `direct`: no sub-allocation; each request is one allocation of the source. The end of a chain that has no
// pool, such as device = ["cuda"]: gives these blocks the same identity and accounting as all others.
// Memory freed while work may use it goes back as the source does it (cuMemFree waits), or in stream order.
#pragma once

#include <map>

#include "core/base/threads/mutex.hpp"
#include "core/resource/resource.hpp"
#include "core/resource/source.hpp"
#include "core/space/region.hpp"

namespace gpumem::resource {

class direct final : public resource {
 public:
  direct(chain_context const& home, std::size_t node, source& upstream) noexcept
      : resource(home, node), upstream_(upstream), region_(home.where, this) {}

  space::handle allocate(allocation_request const& request) override;
  void deallocate(space::handle h, free_order const& order) noexcept override;
  void withhold(space::handle h, free_order const& order) noexcept override { deallocate(h, order); }
  space::handle block_at(space::segment const& in, std::uint64_t address) noexcept override;
  idle_usage measure() noexcept override;
  std::uint64_t give_back(give_back_scope scope) noexcept override { return upstream_.trim(scope); }
  void lost(space::handle h) noexcept override { count_back(h); }
  void forget() noexcept override;

 private:
  // As allocate(), which counts.
  space::handle make(allocation_request const& request);
  extent reserve(allocation_request const& request);
  // Makes the allocation a segment of one aligned block; its units, or 0 where the tables are full.
  std::uint32_t add(extent const& memory, std::uint64_t alignment) noexcept GPUMEM_REQUIRES(mutex_);
  // What the source gave, of which a part may have been cut off.
  extent whole(space::segment const& s) const noexcept GPUMEM_REQUIRES(mutex_);
  // Forgets the segment; what the source gets back, which is `into` that hand.
  extent remove(space::segment* s, in_hand* into = nullptr) noexcept GPUMEM_REQUIRES(mutex_);

  source& upstream_;
  base::mutex mutex_;
  space::region region_ GPUMEM_GUARDED_BY(mutex_);
  // Allocations of which the front was left out, to align the block: by the block's address.
  std::map<std::uint64_t, extent> cut_ GPUMEM_GUARDED_BY(mutex_);
  std::uint64_t left_out_ GPUMEM_GUARDED_BY(mutex_) = 0;  // bytes
};

}  // namespace gpumem::resource
