// See statistics.hpp.
#include "core/resource/adaptors/statistics.hpp"

namespace gpumem::resource {

space::handle statistics::allocate(allocation_request const& request) {
  space::handle const h = pass_down(request);
  std::uint64_t const bytes = blocks()[h].bytes();
  figures_.taken(bytes);
  if (options_.histogram) figures_.asked(request.bytes);
  if (void const* const from = request.caller(); options_.callsites && from != nullptr) {
    stats::count_allocation(stats::site_of(node_, {&from, 1}), request.bytes);
  }
  return h;
}

void statistics::freed(space::handle h, free_order const&) noexcept {
  std::uint64_t const bytes = blocks()[h].bytes();
  stats::add(count().bytes_out, bytes);
  figures_.given(bytes);
}

extent segment_statistics::reserve(allocation_request const& request) {
  stats::add(count().requests, 1);
  stats::add(count().upstream, 1);
  try {
    extent const memory = below_.reserve(request);
    stats::add(count().bytes_in, memory.bytes);
    figures_.taken(memory.bytes);
    if (options_.histogram) figures_.asked(request.bytes);
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
