// Modules and kernels, only for what of the device's memory they take for themselves: an image is the text
// "simulated module BYTES", a function of it the text "local BYTES", the local memory of all its threads,
// which its first launch takes and the context keeps, as it does larger stacks. What a kernel touches is told
// by simulatedLaunch.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "entry.hpp"

using namespace simulated;

namespace {

struct loaded_module {
  context* in = nullptr;
  std::uint64_t bytes = 0;
};

struct kernel_function {
  std::uint64_t local = 0;
};

constexpr char const image_begin[] = "simulated module ";

// The context keeps it until it ends.
bool take(machine& m, context& in, std::uint64_t bytes) {
  if (!m.takes(in.device, bytes)) return false;
  in.own += bytes;
  return true;
}

}  // namespace

SIMULATED_API cuModuleLoadData(CUmodule* out, void const* image) {
  SIMULATED_CALL(with_context);
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  char const* const text = static_cast<char const*>(image);
  if (std::strncmp(text, image_begin, std::strlen(image_begin)) != 0) return CUDA_ERROR_INVALID_IMAGE;
  std::uint64_t const bytes = std::strtoull(text + std::strlen(image_begin), nullptr, 10);
  if (!take(m, *here, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUmodule>(new loaded_module{here, bytes});
  return CUDA_SUCCESS;
}

// The stacks of all threads that run at once; other limits take nothing here.
SIMULATED_API cuCtxSetLimit(CUlimit limit, size_t value) {
  constexpr std::uint64_t threads = 1 << 10;
  SIMULATED_CALL(with_context);
  if (limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;  // measured: asked_rules end
  if (limit != CU_LIMIT_STACK_SIZE) return CUDA_SUCCESS;
  std::uint64_t const more = value > here->stack ? (value - here->stack) * threads : 0;
  if (!take(m, *here, more)) return CUDA_ERROR_OUT_OF_MEMORY;
  here->stack = std::max<std::uint64_t>(here->stack, value);
  return CUDA_SUCCESS;
}

SIMULATED_API cuModuleUnload(CUmodule which) {
  SIMULATED_CALL(with_context);
  auto* const gone = reinterpret_cast<loaded_module*>(which);
  if (gone == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  m.memory_.of(gone->in->device).uncharge(gone->bytes);
  gone->in->own -= gone->bytes;
  delete gone;
  return CUDA_SUCCESS;
}

SIMULATED_API cuModuleGetFunction(CUfunction* out, CUmodule, char const* name) {
  SIMULATED_CALL(with_context);
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (std::strncmp(name, "local ", 6) != 0) return CUDA_ERROR_NOT_FOUND;
  *out = reinterpret_cast<CUfunction>(new kernel_function{std::strtoull(name + 6, nullptr, 10)});
  return CUDA_SUCCESS;
}

SIMULATED_API cuLaunchKernel(CUfunction f, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, CUstream on, void**, void**) {
  SIMULATED_CALL(with_context);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  auto* const launched = reinterpret_cast<kernel_function*>(f);
  if (launched == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!take(m, *here, launched->local)) return CUDA_ERROR_OUT_OF_MEMORY;
  launched->local = 0;
  return m.submit(*where, {"kernel", 0, {}, {}, {}, false});
}
SIMULATED_PER_THREAD(cuLaunchKernel, _ptsz,
                     (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                      unsigned bz, unsigned shared, CUstream on, void** parameters, void** extra),
                     (f, gx, gy, gz, bx, by, bz, shared, on, parameters, extra))
