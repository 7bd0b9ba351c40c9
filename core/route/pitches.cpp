// See pitches.hpp.
#include "core/route/pitches.hpp"

#include "core/base/mutant.hpp"
#include "core/route/router_state.hpp"

namespace gpumem::route {
namespace {

pitched_shape shape_of(CUcontext context, rows const& wanted) noexcept {
  context_entry const* const entry =
      present != nullptr && context != nullptr ? entry_of(*present, context) : nullptr;
  if (entry == nullptr) return {};
  std::uint64_t const width = GPUMEM_MUTANT(pitch_of_any_width) ? 1 : wanted.width;
  return {.device = entry->device, .width = width, .height = wanted.height, .element = wanted.element};
}

}  // namespace

std::uint64_t known_pitch(CUcontext context, rows const& wanted) noexcept {
  pitched_shape const shape = shape_of(context, wanted);
  return shape.key() != 0 ? present->rows_known.find(shape) : 0;
}

void pitch_learnt(CUcontext context, rows const& wanted, std::uint64_t pitch) noexcept {
  pitched_shape const shape = shape_of(context, wanted);
  if (shape.key() != 0) present->rows_known.learn(shape, pitch);
}

}  // namespace gpumem::route
