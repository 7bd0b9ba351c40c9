// Hooks of questions about memory: to the program every block is an allocation of its own, and cached
// memory is free. Called by the program on any thread. The driver answers first. Its errors are kept,
// except that it does not know an address of ours; answers about anything but our blocks are never altered.
#include <algorithm>
#include <cstdio>

#include "core/base/log/log.hpp"
#include "core/driver/sticky_error.hpp"
#include "core/route/address_answers.hpp"
#include "core/route/default_pools.hpp"
#include "core/route/limits.hpp"
#include "core/route/settings.hpp"
#include "shim/hooks/dispatch.hpp"
#include "shim/observed/ipc_handle.hpp"

using namespace gpumem;
using namespace gpumem::shim;

namespace {

constexpr CUdeviceptr nobodys = 4096;  // as the lowest pages are

// Only these tell a block from its segment.
bool is_about_block(CUpointer_attribute attribute) noexcept {
  return attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ||
         attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE ||
         attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID || attribute == CU_POINTER_ATTRIBUTE_CONTEXT ||
         attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE ||
         attribute == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE;
}

// Natively in a memory pool, whose memory legacy IPC does not share, nor may network cards read (measured:
// the attribute is 0 there and 1 of cuMemAlloc's, driver 580.159).
bool is_of_pool(route::block_range const& block) noexcept {
  return route::pool_of(block.base) != nullptr;
}

// What one attribute says of a block of ours; `value` is where the driver put its own answer.
void adjust(CUpointer_attribute attribute, void* value, route::block_range const& block) noexcept {
  if (value == nullptr) return;
  if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) *static_cast<CUdeviceptr*>(value) = block.base;
  if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) *static_cast<std::size_t*>(value) = block.bytes;
  if (attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
    auto const known = route::sync_memops_of(block.base);
    if (known) *static_cast<unsigned*>(value) = *known ? 1 : 0;
  }
  if (attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)
    *static_cast<CUmemoryPool*>(value) = route::pool_of(block.base);
  if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID) {
    std::uint64_t const number = route::identity_of(block.base);
    if (number != 0) *static_cast<unsigned long long*>(value) = number;
  }
  if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT) {
    auto& context = *static_cast<CUcontext*>(value);
    context = route::context_of(block.base, context);
  }
  // Transports export where this says that they may, and take a refusal then for an error.
  if (attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) {
    auto& capable = *static_cast<std::uint32_t*>(value);
    capable = capable != 0 && !is_of_pool(block) && can_export(block) ? 1 : 0;
  }
  if (attribute == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE && is_of_pool(block))
    *static_cast<std::uint32_t*>(value) = 0;
}

// `ours`: the answer is the block's alone, also where the driver does not know the address at all, as with
// memory of the host (upstream/host/system). `unknown_address`: what the driver says of memory that is freed.
template <typename Real, typename Answer>
CUresult about_block(hook which, CUdeviceptr address, bool ours, CUresult unknown_address, Real&& real,
                     Answer&& answer) noexcept {
  hook_scope const scope;
  if (!scope) return real();
  CUresult code = real();
  bool const unknown = ours && (code == CUDA_ERROR_NOT_FOUND || code == CUDA_ERROR_INVALID_VALUE);
  route::block_range block;
  if ((code == CUDA_SUCCESS || unknown) && route::find(address, block)) {
    answer(block);
    code = CUDA_SUCCESS;
  } else if (code == CUDA_SUCCESS && route::is_idle(address)) {
    code = unknown_address;
  }
  return counted(which, 0, code);
}

// Attributes of an address in a block of ours: the driver's answers where they are not known, the block's
// own.
template <typename Real>
CUresult answer_known(route::address_answers const& known, std::span<CUpointer_attribute const> asked,
                      void* const* values, Real&& real) noexcept {
  if (known.tell(asked, values)) return CUDA_SUCCESS;
  CUresult const code = real();
  if (code != CUDA_SUCCESS) return code;
  known.learn(asked, values);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (is_about_block(asked[i])) adjust(asked[i], values[i], known.block());
  }
  return CUDA_SUCCESS;
}

// Freed memory: what the driver says of an address that is nobody's. That the host's
// pointer is the address itself, and that a range is left as it was, was measured (driver 580.159).
CUresult answer_of_nobody(std::span<CUpointer_attribute const> asked, CUpointer_attribute* attributes,
                          void** values, CUdeviceptr address) noexcept {
  auto const count = static_cast<unsigned int>(asked.size());
  CUresult const code = GPUMEM_REAL(cuPointerGetAttributes)(count, attributes, values, nobodys);
  for (std::size_t i = 0; code == CUDA_SUCCESS && i < asked.size(); ++i) {
    if (asked[i] != CU_POINTER_ATTRIBUTE_HOST_POINTER || values[i] == nullptr) continue;
    auto& told = *static_cast<CUdeviceptr*>(values[i]);
    if (told == nobodys) told = address;
  }
  return code;
}

// Page-locked memory that was freed is nobody's, though the pages of a chain's segment stay locked. Nor is
// memory of the device the host's, of which a driver says so but of what was mapped (measured, 580.159).
template <typename Real>
CUresult about_host(hook which, void* address, Real&& real) noexcept {
  hook_scope const scope;
  if (!scope) return real(address);
  auto const asked = reinterpret_cast<CUdeviceptr>(address);
  route::block_range block;
  bool const nobodys_here =
      route::find(asked, block) ? route::owns_device_memory(block.base) : route::is_idle(asked);
  return counted(which, 0, real(nobodys_here ? reinterpret_cast<void*>(nobodys) : address));
}

// Of memory that natively can be exported; the program would look for the fault in itself.
void tell_refused_export(CUresult code, CUdeviceptr address) noexcept {
  if (code == CUDA_ERROR_CONTEXT_IS_DESTROYED || driver::is_sticky(code)) return;
  bool const could = route::owns_device_memory(address) && route::pool_of(address) == nullptr;
  if (current_context() == nullptr || !could) return;
  static std::atomic<bool> told{false};
  if (told.exchange(true, std::memory_order_relaxed)) return;
  char text[200];
  std::snprintf(
      text, sizeof text,
      "cuIpcGetMemHandle of a block of gpumem gave %d: legacy IPC shares memory of cuda only; end the chain "
      "with cuda",
      static_cast<int>(code));
  base::log_line(base::log_level::warn, text);
}

}  // namespace

extern "C" {

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  hook_scope const scope;
  if (!scope) return GPUMEM_REAL(cuMemGetInfo_v2)(free, total);
  std::size_t real_free = 0;  // both asked for in any case: one bounds the other
  std::size_t real_total = 0;
  stats::in_use_question question(current_owner().device);
  CUresult const code = GPUMEM_REAL(cuMemGetInfo_v2)(&real_free, &real_total);
  if (code == CUDA_SUCCESS) {
    question.answered(real_total - real_free);
    route::memory_info const told = route::tell_memory(current_context(), {real_free, real_total});
    if (free != nullptr) *free = static_cast<std::size_t>(told.free);
    if (total != nullptr) *total = static_cast<std::size_t>(told.total);
  }
  return counted(hook::cuMemGetInfo_v2, 0, code);
}

// Not counted: a program that only looks at its devices has no report.
CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  CUresult const code = GPUMEM_REAL(cuDeviceTotalMem_v2)(bytes, device);
  if (code != CUDA_SUCCESS || bytes == nullptr) return code;
  hook_scope const scope;
  if (scope) *bytes = static_cast<std::size_t>(route::total_memory(device, *bytes));
  return code;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  auto const answer = [&](route::block_range const& block) {
    if (base != nullptr) *base = block.base;
    if (size != nullptr) *size = block.bytes;
  };
  // Of a segment whose block was freed the program must not hear. Where the driver refuses, what it writes is
  // its answer: zero, whatever the code (measured: tests/programs/dead_context.cpp, driver 580.159).
  route::block_range told;
  auto const real_and_hide = [&] {
    std::size_t bytes = 0;
    CUresult const code = GPUMEM_REAL(cuMemGetAddressRange_v2)(base != nullptr ? &told.base : nullptr,
                                                               size != nullptr ? &bytes : nullptr, address);
    told.bytes = bytes;
    return code;
  };
  {
    hook_scope const scope;
    if (scope) {
      route::address_answers const known(address, current_context());
      if (known.is_known()) {
        answer(known.block());
        return counted(hook::cuMemGetAddressRange_v2, 0, CUDA_SUCCESS);
      }
    }
  }
  CUresult const code = about_block(hook::cuMemGetAddressRange_v2, address, true, CUDA_ERROR_NOT_FOUND,
                                    real_and_hide, [&](route::block_range const& block) { told = block; });
  if (code == CUDA_SUCCESS)
    answer(told);
  else
    GPUMEM_REAL(cuMemGetAddressRange_v2)(base, size, nobodys);
  return code;
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  auto const real = [&] { return GPUMEM_REAL(cuPointerGetAttribute)(value, attribute, address); };
  bool learns = false;
  {
    hook_scope const scope;
    // Alone the pointer of the host is refused for memory of the device.
    if (scope && value != nullptr && attribute != CU_POINTER_ATTRIBUTE_HOST_POINTER) {
      route::address_answers const known(address, current_context());
      if (known.is_known() && known.tell(std::span(&attribute, 1), &value)) {
        return counted(hook::cuPointerGetAttribute, 0, CUDA_SUCCESS);
      }
      learns = known.is_known();
    }
  }
  auto const real_and_learn = [&] {
    if (!learns && route::is_idle(address))  // the driver writes nothing then
      return GPUMEM_REAL(cuPointerGetAttribute)(value, attribute, nobodys);
    CUresult const code = real();
    if (code == CUDA_SUCCESS && learns)
      route::address_answers(address, current_context()).learn(std::span(&attribute, 1), &value);
    return code;
  };
  auto const not_of_the_dead = [&] {
    CUresult const code = real_and_learn();
    return code == CUDA_SUCCESS && route::is_idle(address) ? CUDA_ERROR_INVALID_VALUE : code;
  };
  if (!is_about_block(attribute)) return observe(hook::cuPointerGetAttribute, 0, not_of_the_dead, [] {});
  return about_block(hook::cuPointerGetAttribute, address, value != nullptr, CUDA_ERROR_INVALID_VALUE,
                     real_and_learn,
                     [&](route::block_range const& block) { adjust(attribute, value, block); });
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr address) {
  auto const real = [&] { return GPUMEM_REAL(cuPointerGetAttributes)(count, attributes, values, address); };
  hook_scope const scope;
  if (!scope) return real();
  std::span<CUpointer_attribute const> const asked(attributes,
                                                   attributes != nullptr && values != nullptr ? count : 0);
  route::address_answers const known(address, asked.empty() ? nullptr : current_context());
  if (known.is_known())
    return counted(hook::cuPointerGetAttributes, 0, answer_known(known, asked, values, real));
  if (route::is_idle(address))
    return counted(hook::cuPointerGetAttributes, 0, answer_of_nobody(asked, attributes, values, address));
  CUresult const code = real();
  route::block_range block;
  if (code == CUDA_SUCCESS && route::find(address, block)) {
    for (std::size_t i = 0; i < asked.size(); ++i) adjust(asked[i], values[i], block);
  }
  return counted(hook::cuPointerGetAttributes, 0, code);
}

// Natively no flags are told of memory of any other call than cuMemMap (measured: tests/gpu,
// told_of_addresses access, driver 580.159); over vmm a block's segment has some.
CUresult cuMemGetAccess(unsigned long long* flags, CUmemLocation const* location, CUdeviceptr address) {
  hook_scope const scope;
  if (!scope) return GPUMEM_REAL(cuMemGetAccess)(flags, location, address);
  CUresult const code =
      GPUMEM_REAL(cuMemGetAccess)(flags, location, route::is_idle(address) ? nobodys : address);
  route::block_range block;
  if (code == CUDA_SUCCESS && route::find(address, block)) *flags = 0;
  return counted(hook::cuMemGetAccess, 0, code);
}

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  hook_scope const scope;
  if (!scope) return GPUMEM_REAL(cuIpcGetMemHandle)(handle, address);
  CUipcMemHandle made;
  CUresult code = GPUMEM_REAL(cuIpcGetMemHandle)(handle != nullptr ? &made : nullptr, address);
  route::block_range block;
  if (code == CUDA_SUCCESS && route::find(address, block)) {
    code = export_block(made, block);
    if (code == CUDA_SUCCESS && !route::exported(block.base)) code = CUDA_ERROR_INVALID_VALUE;
  } else if (code == CUDA_SUCCESS && route::is_idle(address)) {
    code = CUDA_ERROR_INVALID_VALUE;
  } else if (code != CUDA_SUCCESS) {
    tell_refused_export(code, address);
  }
  if (code == CUDA_SUCCESS) *handle = made;  // a refusal leaves it alone
  return counted(hook::cuIpcGetMemHandle, 0, code);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* result, void* address, unsigned int flags) {
  return about_host(hook::cuMemHostGetDevicePointer_v2, address, [&](void* asked) {
    return GPUMEM_REAL(cuMemHostGetDevicePointer_v2)(result, asked, flags);
  });
}

CUresult cuMemHostGetFlags(unsigned int* flags, void* address) {
  return about_host(hook::cuMemHostGetFlags, address,
                    [&](void* asked) { return GPUMEM_REAL(cuMemHostGetFlags)(flags, asked); });
}
}
