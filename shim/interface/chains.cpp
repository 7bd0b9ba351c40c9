// The functions of gpumem.h that ask a chain for memory, and give it back. Called by the program on any
// thread; the way to the chain is the hooks' own (route/requests/hot_path.hpp). What no chain serves is not
// handed to the driver here: the answer says so, and the program's own call of CUDA is seen by its hook as
// any other. Never throws, and never reads what the program has not handed in.
#include <atomic>
#include <cstdint>
#include <cstdio>

#define GPUMEM_BUILDS_THE_LIBRARY
#include "core/base/log/log.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "shim/hooks/dispatch.hpp"
#include "shim/include/gpumem/gpumem.h"

using namespace gpumem;
using namespace gpumem::shim;

namespace {

constexpr std::size_t most_alignment = std::size_t{1} << 30;

// A call of ours from inside a hook (in a callback of a resource's) is CUDA's to answer.
int code_of_rest() noexcept {
  return process::state.load(std::memory_order_acquire) == process::life::running ? GPUMEM_NOT_SERVED
                                                                                  : GPUMEM_NOT_STARTED;
}

[[gnu::noinline, gnu::cold]] int name_unknown(char const* chain) noexcept {
  static constinit std::atomic_flag said;
  if (said.test_and_set(std::memory_order_relaxed)) return GPUMEM_NO_CHAIN;
  base::uncancelled const held;
  char text[320];
  std::snprintf(
      text, sizeof text,
      "the program asks for the chain \"%.80s\", and no rule has this name: add [[rule]] with name = "
      "\"%.80s\" and chain = [\"pool\", \"cuda\"] to the configuration",
      chain, chain);
  base::log_line(base::log_level::warn, text);
  return GPUMEM_NO_CHAIN;
}

// Only what was answered is counted: the rest is when CUDA is asked.
int answered(hook which, std::uint64_t bytes, CUresult code) noexcept {
  if (code == CUDA_ERROR_OUT_OF_MEMORY || code == CUDA_ERROR_INVALID_VALUE) {
    counted(which, bytes, code, true);
    return code == CUDA_ERROR_OUT_OF_MEMORY ? GPUMEM_OUT_OF_MEMORY : GPUMEM_INVALID;
  }
  return GPUMEM_NOT_SERVED;
}

[[gnu::always_inline]] inline int allocate_from(char const* chain, hook which, driver::request request,
                                                std::size_t alignment, void** block) noexcept {
  if (block == nullptr || (alignment & (alignment - 1)) != 0 || alignment > most_alignment) [[unlikely]]
    return GPUMEM_INVALID;
  *block = nullptr;
  if (!ensure_hook_may_work()) [[unlikely]]
    return code_of_rest();
  hook_at_work const at_work;
  request.hook = request.called = static_cast<std::uint16_t>(which);
  if (alignment > space::unit) request.alignment = static_cast<std::uint32_t>(alignment);
  if (chain != nullptr) {
    request.named = route::rules_named(chain);
    if (request.named == 0) [[unlikely]]
      return name_unknown(chain);
  }
  if (!request.stream_ordered || is_default(request.stream)) {
    request.context = current_context();
    if (request.context == nullptr) [[unlikely]]
      return GPUMEM_NO_CONTEXT;
  }
  if (request.bytes == 0) return GPUMEM_OK;
  CUdeviceptr address = 0;
  auto const outcome = route::allocate(request, &address);
  if (outcome.code != CUDA_SUCCESS) [[unlikely]]
    return answered(which, request.bytes, outcome.code);
  counted_served(which, request.bytes);
  *block = reinterpret_cast<void*>(address);
  return GPUMEM_OK;
}

[[gnu::always_inline]] inline int release_to_chain(hook which, driver::free_request release) noexcept {
  if (release.address == 0) return GPUMEM_OK;
  if (!ensure_hook_may_work()) [[unlikely]]
    return code_of_rest();
  hook_at_work const at_work;
  release.hook = static_cast<std::uint16_t>(which);
  if (release.stream_ordered && is_default(release.stream)) {
    release.context = current_context();
    if (release.context == nullptr) [[unlikely]]
      return GPUMEM_NO_CONTEXT;
  }
  auto const outcome = route::release(release);
  if (outcome.code == CUDA_SUCCESS) [[likely]] {
    counted_served(which);
    return GPUMEM_OK;
  }
  if (outcome.code == route::outcome::refused_since) return answered(which, 0, route::refused_since(release));
  if (outcome.code == CUDA_ERROR_INVALID_VALUE) route::refused(release);
  return answered(which, 0, outcome.code);
}

}  // namespace

extern "C" {

int gpumem_allocate(const char* chain, size_t bytes, size_t alignment, gpumem_stream stream, void** block) {
  return allocate_from(chain, hook::gpumem_allocate,
                       {.bytes = bytes,
                        .stream_ordered = true,
                        .stream = named_stream(stream, false),
                        .caller = __builtin_return_address(0)},
                       alignment, block);
}

int gpumem_release(void* block, gpumem_stream stream) {
  return release_to_chain(hook::gpumem_release, {.address = reinterpret_cast<CUdeviceptr>(block),
                                                 .stream_ordered = true,
                                                 .stream = named_stream(stream, false),
                                                 .caller = __builtin_return_address(0)});
}

int gpumem_allocate_sync(const char* chain, size_t bytes, size_t alignment, void** block) {
  return allocate_from(chain, hook::gpumem_allocate_sync,
                       {.bytes = bytes, .caller = __builtin_return_address(0)}, alignment, block);
}

int gpumem_release_sync(void* block) {
  return release_to_chain(hook::gpumem_release_sync, {.address = reinterpret_cast<CUdeviceptr>(block),
                                                      .caller = __builtin_return_address(0)});
}
}
