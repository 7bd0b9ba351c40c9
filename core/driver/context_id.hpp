// Tells two contexts with the same handle apart. The driver gives the handle of an ended context to the
// next one (of a primary context always); the context's number, from driver 12.0 on, differs. Any thread;
// one driver call, which needs no context.
#pragma once

#include <cstdint>

#include "core/driver/question.hpp"
#include "core/driver/table.hpp"

namespace gpumem::driver {

inline bool tells_contexts_apart() noexcept {
  return real.cuCtxGetId != nullptr;
}

// The number of the context that the handle names now; 0: not known.
inline std::uint64_t id_of(CUcontext context) noexcept {
  unsigned long long id = 0;
  return tells_contexts_apart() && asked(real.cuCtxGetId, context, &id) == CUDA_SUCCESS ? id : 0;
}

// What a table keeps of a context, so that the end of one takes nothing from the next one of its handle,
// which another thread may have by the time that anybody hears of the end.
struct named_context {
  CUcontext handle = nullptr;
  std::uint64_t id = 0;

  // As far as the driver tells contexts apart.
  bool is(named_context const& other) const noexcept {
    return handle == other.handle && (id == other.id || id == 0 || other.id == 0);
  }
};
inline named_context name_of(CUcontext context) noexcept {
  return {context, id_of(context)};
}

// `not_told`: in a host function, where the driver answers nothing; `not_found_out`: it could not just then.
enum class context_state { same, ended, not_told, not_found_out };

// Of a question about a context.
constexpr bool says_ended(CUresult code) noexcept {
  return code == CUDA_ERROR_INVALID_VALUE || code == CUDA_ERROR_INVALID_CONTEXT ||
         code == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

// What has become of the context that had this number.
inline context_state state_of(CUcontext context, std::uint64_t id) noexcept {
  unsigned long long now = 0;
  CUresult const code = asked(real.cuCtxGetId, context, &now);
  if (code == CUDA_SUCCESS) return now == id ? context_state::same : context_state::ended;
  if (says_ended(code)) return context_state::ended;
  return is_of_the_question(code) ? context_state::not_found_out : context_state::not_told;
}

// The handle names none that lives, as far as the driver says. In such a one cuCtxGetDevice still tells the
// device, and memory of cuMemCreate is made and mapped (measured: tests/programs/dead_context.cpp, 580.159).
inline bool is_over(CUcontext context) noexcept {
  unsigned long long id = 0;
  return tells_contexts_apart() && says_ended(asked(real.cuCtxGetId, context, &id));
}

inline bool has_ended(CUcontext context, std::uint64_t id) noexcept {
  return state_of(context, id) == context_state::ended;
}

}  // namespace gpumem::driver
