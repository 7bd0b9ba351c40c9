// See ipc_handle.hpp. The layout of CUipcMemHandle as measured (driver 580): bytes 16-23 are the size,
// bytes 28-31 the offset in the driver block. The check makes small native blocks, which share a driver
// block: their handles must differ in exactly these fields, by exactly their sizes and distance. May run
// while a capture is open, hence the relaxed mode.
#include "shim/observed/ipc_handle.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "core/base/log/log.hpp"
#include "core/base/threads/mutex.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/driver/question.hpp"
#include "core/driver/table.hpp"
#include "core/stream_order/relaxed_mode.hpp"
#include "shim/symbols/real_symbols.hpp"

namespace gpumem::shim {
namespace {

constexpr std::size_t size_at = 16;
constexpr std::size_t offset_at = 28;

template <typename Field>
Field read(CUipcMemHandle const& handle, std::size_t at) noexcept {
  Field value;
  std::memcpy(&value, handle.reserved + at, sizeof value);
  return value;
}

template <typename Field>
void write(CUipcMemHandle& handle, std::size_t at, Field value) noexcept {
  std::memcpy(handle.reserved + at, &value, sizeof value);
}

CUipcMemHandle without_place(CUipcMemHandle handle) noexcept {
  write<std::uint64_t>(handle, size_at, 0);
  write<std::uint32_t>(handle, offset_at, 0);
  return handle;
}

struct sample {
  std::uint64_t bytes;
  CUdeviceptr address = 0;
  CUipcMemHandle handle{};
};

bool takes_size(sample const& s) noexcept {
  auto const size = read<std::uint64_t>(s.handle, size_at);
  return size >= s.bytes && size < s.bytes + 512;
}

// True for two samples of one driver block whose handles place them as they really lie.
bool agree(sample const& a, sample const& b) noexcept {
  auto const left = without_place(a.handle);
  auto const right = without_place(b.handle);
  if (std::memcmp(&left, &right, sizeof left) != 0) return false;
  auto const distance = static_cast<std::uint32_t>(b.address - a.address);
  return distance != 0 &&
         distance == read<std::uint32_t>(b.handle, offset_at) - read<std::uint32_t>(a.handle, offset_at);
}

struct layout {
  CUresult code = CUDA_ERROR_UNKNOWN;  // else than success: the driver could not be asked
  bool known = false;
};

// cuMemFree would wait for all work of the context, for ever where that waits for this thread, and natively
// no export does; in the order of a stream without work the driver waits for nothing
// (core/upstream/cuda.cpp).
void free_samples(std::array<sample, 4> const& samples) noexcept {
  auto const& real = driver::real;
  CUstream without_work = nullptr;
  bool const ordered = real.cuMemFreeAsync != nullptr && real.cuStreamCreate != nullptr &&
                       real.cuStreamCreate(&without_work, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;
  for (auto const& s : samples) {
    if (s.address == 0) continue;
    if (!ordered || driver::asked(real.cuMemFreeAsync, s.address, without_work) != CUDA_SUCCESS)
      driver::asked(real.cuMemFree_v2, s.address);
  }
  if (!ordered) return;
  real.cuStreamSynchronize(without_work);
  GPUMEM_REAL(cuStreamDestroy_v2)(without_work);
}

layout ask_layout() noexcept {
  // Several, as a driver block may end between any two of them.
  std::array<sample, 4> samples{{{.bytes = 1000}, {.bytes = 3000}, {.bytes = 1000}, {.bytes = 3000}}};
  layout found{CUDA_SUCCESS};
  {
    stream_order::relaxed_mode relaxed(true);
    for (auto& s : samples) {
      if (found.code == CUDA_SUCCESS) found.code = driver::real.cuMemAlloc_v2(&s.address, s.bytes);
      if (found.code == CUDA_SUCCESS) found.code = GPUMEM_REAL(cuIpcGetMemHandle)(&s.handle, s.address);
    }
    free_samples(samples);
  }
  if (found.code != CUDA_SUCCESS) return found;
  for (std::size_t i = 1; i < samples.size(); ++i)
    found.known = found.known || agree(samples[i - 1], samples[i]);
  for (auto const& s : samples) found.known = found.known && takes_size(s);
  return found;
}

// What chains have idle goes back first where the driver has no memory: natively an export needs none. A
// thread that is cancelled meanwhile would leave the lock behind.
layout checked_layout() noexcept {
  static base::mutex lock;
  static layout checked;
  base::lock_guard const held(lock);
  if (checked.code == CUDA_SUCCESS) return checked;
  base::uncancelled const whole;
  checked = ask_layout();
  CUcontext context = nullptr;
  if (checked.code == CUDA_ERROR_OUT_OF_MEMORY &&
      driver::asked(driver::real.cuCtxGetCurrent, &context) == CUDA_SUCCESS &&
      route::give_back_if_idle(context))
    checked = ask_layout();
  return checked;
}

// `handle` names the block afterwards; otherwise why it cannot, and with the driver's own code no reason.
struct placed {
  CUresult code = CUDA_SUCCESS;
  std::string_view reason{};
};

placed place(CUipcMemHandle& handle, route::block_range const& block) noexcept {
  CUdeviceptr base = 0;
  std::size_t size = 0;
  CUresult const code = GPUMEM_REAL(cuMemGetAddressRange_v2)(&base, &size, block.base);
  if (code != CUDA_SUCCESS) return {code};
  if (block.base == base && block.bytes == size) return {};  // a driver allocation of its own
  layout const here = checked_layout();
  if (here.code == CUDA_ERROR_OUT_OF_MEMORY)
    return {
        here.code,
        "cuIpcGetMemHandle failed: before the first export of a process the layout of IPC handles is checked "
        "with 2 MiB of the device, and there is no memory left; free some, or export a block earlier"};
  if (here.code != CUDA_SUCCESS) return {here.code};
  if (!here.known) {
    return {
        CUDA_ERROR_NOT_SUPPORTED,
        "cuIpcGetMemHandle failed: the IPC handles of this driver have an unknown layout and cannot name a "
        "block of a pool; export memory with [route] device = \"passthrough\""};
  }
  std::uint64_t const offset = read<std::uint32_t>(handle, offset_at) + (block.base - base);
  if (offset > std::numeric_limits<std::uint32_t>::max()) {
    return {CUDA_ERROR_NOT_SUPPORTED,
            "cuIpcGetMemHandle failed: the block lies more than 4 GiB into its segment, the limit of an IPC "
            "handle; keep segments smaller, or export memory with [route] device = \"passthrough\""};
  }
  write<std::uint64_t>(handle, size_at, block.bytes);
  write(handle, offset_at, static_cast<std::uint32_t>(offset));
  return {};
}

}  // namespace

CUresult export_block(CUipcMemHandle& handle, route::block_range const& block) noexcept {
  placed const result = place(handle, block);
  if (!result.reason.empty()) base::log_line(base::log_level::warn, result.reason);
  return result.code;
}

bool can_export(route::block_range const& block) noexcept {
  CUipcMemHandle handle;
  return GPUMEM_REAL(cuIpcGetMemHandle)(&handle, block.base) == CUDA_SUCCESS &&
         place(handle, block).code == CUDA_SUCCESS;
}

}  // namespace gpumem::shim
