// See statistics.hpp.
#include "core/resource/statistics.hpp"

namespace gpumem::resource {

space::handle statistics::allocate(demand const& wish) {
  space::handle const h = pass_down(wish);
  std::uint64_t const bytes = blocks()[h].bytes();
  figures_.taken(bytes);
  if (options_.histogram) figures_.asked(wish.bytes);
  if (void const* const from = wish.caller(); options_.callsites && from != nullptr) {
    stats::count_allocation(stats::site_of(node_, {&from, 1}), wish.bytes);
  }
  return h;
}

void statistics::freed(space::handle h, order const&) noexcept {
  std::uint64_t const bytes = blocks()[h].bytes();
  stats::add(count().bytes_out, bytes);
  figures_.given(bytes);
}

extent segment_statistics::reserve(demand const& wish) {
  stats::add(count().requests, 1);
  stats::add(count().upstream, 1);
  try {
    extent const memory = below_.reserve(wish);
    stats::add(count().bytes_in, memory.bytes);
    figures_.taken(memory.bytes);
    if (options_.histogram) figures_.asked(wish.bytes);
    return memory;
  } catch (driver::allocation_failed const&) {
    stats::add(count().failed, 1);
    throw;
  }
}

void segment_statistics::release(extent const& memory, CUstream order) noexcept {
  stats::add(count().bytes_out, memory.bytes);
  figures_.given(memory.bytes);
  below_.release(memory, order);
}

void segment_statistics::lost(extent const& memory) noexcept {
  stats::add(count().bytes_out, memory.bytes);
  figures_.given(memory.bytes);
  below_.lost(memory);
}

}  // namespace gpumem::resource
