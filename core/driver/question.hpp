// Questions to the driver that it could not answer just then: out of memory, trouble of the operating
// system, an unknown error. Such a code says nothing of what was asked about, and a wrong guess costs a
// correct free, or memory of a context that has ended; so it is asked again, a few times and at once. For
// calls that change nothing where they fail. Any thread; costs nothing where the driver answers.
#pragma once

#include <cuda.h>

#include "core/base/mutant.hpp"

namespace gpumem::driver {

// It could not just then.
constexpr bool is_of_the_moment(CUresult code) noexcept {
  return code == CUDA_ERROR_OUT_OF_MEMORY || code == CUDA_ERROR_OPERATING_SYSTEM ||
         code == CUDA_ERROR_UNKNOWN;
}

// Nothing is said of the context's work, or of the address: the driver could not find out.
constexpr bool is_of_the_question(CUresult code) noexcept {
  return code == CUDA_ERROR_NOT_SUPPORTED || is_of_the_moment(code);
}

// Of a call that the program did not make, for memory that it asked for: this driver, or device, does not do
// what a chain is made of, or did not just then. It says nothing of a request to the driver itself.
constexpr bool is_of_the_chain(CUresult code) noexcept {
  return code != CUDA_ERROR_OUT_OF_MEMORY && (code == CUDA_ERROR_INVALID_VALUE || is_of_the_question(code));
}

template <typename Function, typename... Arguments>
[[gnu::cold, gnu::noinline]] CUresult asked_again(CUresult code, Function const& function,
                                                  Arguments... arguments) noexcept {
  for (int i = 0; i < 3 && is_of_the_question(code); ++i) code = function(arguments...);
  return code;
}

template <typename Function, typename... Arguments>
[[gnu::always_inline]] inline CUresult asked(Function const& function, Arguments... arguments) noexcept {
  CUresult const code = function(arguments...);
  if (code == CUDA_SUCCESS || GPUMEM_MUTANT(asked_once)) [[likely]]
    return code;
  return asked_again(code, function, arguments...);
}

}  // namespace gpumem::driver
