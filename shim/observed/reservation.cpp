// See reservation.hpp.
#include "shim/observed/reservation.hpp"

#include "core/driver/question.hpp"
#include "core/driver/table.hpp"
#include "core/route/router.hpp"
#include "core/stats/callers/libraries.hpp"
#include "core/stats/callers/samples.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::shim {

owner_of_memory current_owner(void const* caller) noexcept {
  CUcontext context = nullptr;
  CUdevice device = 0;
  if (driver::asked(driver::real.cuCtxGetCurrent, &context) != CUDA_SUCCESS || context == nullptr) return {};
  if (driver::asked(driver::real.cuCtxGetDevice, &device) != CUDA_SUCCESS) return {};
  return {device, route::home_of(context), caller, true};
}

owner_of_memory owner_by_stream(CUstream stream, void const* caller) noexcept {
  CUcontext context = nullptr;
  bool const is_default = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  CUresult const code = is_default ? driver::asked(driver::real.cuCtxGetCurrent, &context)
                                   : driver::asked(driver::real.cuStreamGetCtx, stream, &context);
  if (code != CUDA_SUCCESS || context == nullptr) return {};
  return {route::device_of(context), nullptr, caller, is_default};
}

reservation::reservation(hook which, std::uint64_t bytes, owner_of_memory const& owner) noexcept
    : owner_(owner), bytes_(bytes) {
  if (owner.device < 0) return;
  code_ = route::admit({.device = owner.device,
                        .bytes = bytes,
                        .hook = static_cast<std::uint16_t>(which),
                        .captures_forbid = which != hook::cuMemCreate,
                        .in_current_context = owner.is_current && which != hook::cuMemCreate});
}

reservation::~reservation() {
  if (code_ == CUDA_SUCCESS && owner_.device >= 0) route::withdraw(owner_.device, bytes_);
}

void reservation::commit(observed_kind kind, std::uint64_t key, std::uint64_t bytes, bool movable) noexcept {
  if (owner_.device < 0) return;
  route::observed_bytes const held = taken(bytes, movable);
  driver::named_context context;
  if (owner_.context != nullptr) context = route::name_of(owner_.context);
  commit(held);  // first: whoever finds it in the table takes it off the ledger
  if (arrival_.keep(kind, key, {held, context})) return;
  route::leaves(held);
  route::has_left(held);
}

route::observed_bytes reservation::taken(std::uint64_t bytes, bool movable) const noexcept {
  return {owner_.device, bytes, movable, stats::library_of(owner_.caller),
          stats::choose_observed(
              {stats::device_slot(owner_.device), bytes, owner_.caller, __builtin_frame_address(0)})};
}

void reservation::commit(route::observed_bytes const& held) noexcept {
  route::hold(held, bytes_);
  owner_.device = -1;
}

}  // namespace gpumem::shim
