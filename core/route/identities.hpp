// The number by which CU_POINTER_ATTRIBUTE_BUFFER_ID tells an allocation from a later one at the same
// address: transports (UCX, Open MPI) keep registrations and mappings as long as it is the same. Natively
// every allocation has its own; blocks of a segment would share the segment's for all of their lives. A block
// gets one when it is asked for it, and is marked; the free that ends its life takes the mark off. Any
// thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "core/space/block.hpp"
#include "core/space/side_table.hpp"

namespace gpumem::route {

class identities {
 public:
  // 0: no room to remember it.
  std::uint64_t of(space::block& b, space::handle h) noexcept {
    std::lock_guard const lock(mutex_);
    if (!numbers_) numbers_.emplace();  // addresses are reserved only where somebody asks
    std::uint64_t* const known = numbers_->make(h);
    if (known == nullptr) return 0;
    if (!b.is(space::named)) *known = ++last_;
    b.mark(space::named);
    return *known;
  }

 private:
  std::mutex mutex_;
  std::optional<space::side_table<std::uint64_t>> numbers_;
  std::uint64_t last_ = std::uint64_t{1} << 40;  // the driver counts from 1
};

}  // namespace gpumem::route
