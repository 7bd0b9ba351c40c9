// See walk_stack.hpp.
#include "core/base/threads/walk_stack.hpp"

#include <unwind.h>

namespace gpumem::base {
namespace {

constexpr std::size_t most_inner = 64;  // frames of ours and of the CUDA runtime below the caller

struct walk {
  void const* from;
  std::span<void const*> frames;
  std::size_t passed = 0;
  std::size_t count = 0;
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* argument) {
  auto& state = *static_cast<walk*>(argument);
  auto const address = reinterpret_cast<void const*>(_Unwind_GetIP(context));
  if (state.count == 0 && address != state.from) {
    return ++state.passed > most_inner ? _URC_END_OF_STACK : _URC_NO_REASON;
  }
  if (address == nullptr) return _URC_END_OF_STACK;
  state.frames[state.count++] = address;
  return state.count == state.frames.size() ? _URC_END_OF_STACK : _URC_NO_REASON;
}

}  // namespace

std::size_t walk_stack(void const* from, std::span<void const*> frames) noexcept {
  if (frames.empty()) return 0;
  walk state{.from = from, .frames = frames};
  _Unwind_Backtrace(visit, &state);
  if (state.count == 0) frames[state.count++] = from;
  return state.count;
}

}  // namespace gpumem::base
