// Sends requests with special flags to the driver, one by one, and all others to the pool (cuMemHostAlloc:
// portable, mapped, write-combined; cuMemAllocManaged: attach). A pool's segments are of one kind, and the
// driver answers for a block what it would answer for its segment. Rounds managed memory up to whole pages.
// Made by the builder above each pool of a route whose requests have flags. Immutable.
#pragma once

#include "core/driver/managed_memory.hpp"
#include "core/resource/resource.hpp"

namespace gpumem::resource {

class by_flags final : public resource {
 public:
  // `of_all`: what the segments of `pool` have.
  by_flags(chain_context const& home, std::size_t node, unsigned of_all, resource& pool,
           resource& others) noexcept
      : resource(home, node), of_all_(of_all), pool_(pool), others_(others) {
    pool_.set_parent(*this);
    others_.set_parent(*this);
  }

  space::handle allocate(allocation_request const& request) override {
    allocation_request paged = request;
    constexpr std::uint64_t page = driver::managed_page;
    // Of nearly all bytes that there can be the round number is 0: then as they are, for the pool to refuse.
    std::uint64_t const whole = (request.bytes + page - 1) / page * page;
    if (home_.kind == driver::memory_kind::managed && whole != 0) paged.bytes = whole;
    return ((request.flags & ~of_all_) == 0 ? pool_ : others_).allocate(paged);
  }

 private:
  unsigned const of_all_;
  resource& pool_;
  resource& others_;
};

}  // namespace gpumem::resource
