// See remedy.hpp.
#include "core/report/remedy.hpp"

#include <array>

#include "core/driver/error.hpp"

namespace gpumem::report {
namespace {

struct advice {
  std::string_view name;
  std::string_view text;
};
// In the order of driver::refused_by.
constexpr std::array<advice, 5> all{{
    {"driver",
     "free memory earlier, lower what others hold on the device, or spill by a fallback: chains = "
     "[[\"pool\", \"cuda\"], [\"managed\"]]"},
    {"limit",
     "raise allocation_limit, free memory earlier, or spill by a fallback: chains = [[\"limiting\", "
     "\"pool\", \"cuda\"], [\"managed\"]]"},
    {"maximum",
     "raise maximum_pool_size (of an arena: arena_size), free memory earlier, or spill by a fallback: chains "
     "= [[\"pool\", "
     "\"cuda\"], [\"managed\"]]"},
    {"largest_block", "raise block_size, or let a binning send larger requests elsewhere"},
    {"host_memory", "give the process more host memory"},
}};
static_assert(static_cast<std::size_t>(driver::refused_by::host_memory) + 1 == all.size());

advice const& advice_for(stats::failure_note const& failure) noexcept {
  return all[failure.refused_by < all.size() ? failure.refused_by : 0];
}

}  // namespace

std::string_view refused_by(stats::failure_note const& failure) noexcept {
  return advice_for(failure).name;
}

std::string remedy_for(stats::failure_note const& failure) {
  if (failure.code != CUDA_ERROR_OUT_OF_MEMORY) return {};
  std::string text(advice_for(failure).text);
  bool const in_pieces = failure.cached >= failure.bytes && failure.largest_free < failure.bytes;
  if (in_pieces)
    text = "the cached memory is in pieces: bins for small sizes keep large ones whole; or " + text;
  return text;
}

}  // namespace gpumem::report
