// The numbers that CU_POINTER_ATTRIBUTE_BUFFER_ID returns for blocks. Transports (UCX, Open MPI) keep
// registrations and mappings as long as the number of an address stays the same. Natively each allocation
// has its own; blocks would all have their segment's. A block gets a number when it is asked for, and a
// mark; its free takes the mark off. Any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/threads/mutex.hpp"
#include "core/space/blocks/block.hpp"
#include "core/space/blocks/side_table.hpp"

namespace gpumem::route {

class identities {
 public:
  // 0: no room to remember it.
  std::uint64_t of(space::block& b, space::handle h) noexcept {
    base::lock_guard const lock(mutex_);
    if (!numbers_) numbers_.emplace();  // addresses are reserved only where somebody asks
    std::uint64_t* const known = numbers_->make(h);
    if (known == nullptr) return 0;
    if (!b.is(space::named)) *known = ++last_;
    b.mark(space::named);
    return *known;
  }

 private:
  base::mutex mutex_;
  std::optional<space::side_table<std::uint64_t>> numbers_ GPUMEM_GUARDED_BY(mutex_);
  // The driver counts from 1.
  std::uint64_t last_ GPUMEM_GUARDED_BY(mutex_) = std::uint64_t{1} << 40;
};

}  // namespace gpumem::route
