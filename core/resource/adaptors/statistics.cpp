// See statistics.hpp.
#include "core/resource/adaptors/statistics.hpp"

namespace gpumem::resource {

space::handle statistics::serve(allocation_request const& request) {
  space::handle const h = pass_down(request);
  std::uint64_t const bytes = blocks()[h].bytes();
  figures_.taken(bytes);
  if (options_.histogram) figures_.asked(request.bytes);
  if (void const* const from = request.caller(); options_.callsites && from != nullptr) {
    stats::count_allocation(stats::site_of(node_, {&from, 1}), request.bytes);
  }
  return h;
}

void statistics::given_back(space::handle h, free_order const& order) noexcept {
  figures_.given(bytes_of(h, order));
}

extent segment_statistics::serve(allocation_request const& request) {
  extent const memory = pass_down(request);
  figures_.taken(memory.bytes);
  if (options_.histogram) figures_.asked(request.bytes);
  return memory;
}

void segment_statistics::leaving(extent const& memory, CUstream) noexcept {
  figures_.given(memory.bytes);
}

}  // namespace gpumem::resource
