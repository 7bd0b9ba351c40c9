// See session.hpp. Here: contexts are made current, come and go.
#include <algorithm>

#include "tests/integration/random/transcript/session.hpp"

namespace transcript {

void session::set_context() {
  if (one_in(12)) return void(said(cuCtxSetCurrent(nullptr), "cuCtxSetCurrent null"));
  place const* const to = some_place();
  if (to == nullptr) return;
  said(cuCtxSetCurrent(to->handle), "cuCtxSetCurrent %s", to->name.c_str());
}

void session::push_context() {
  place const* const to = some_place();
  if (to == nullptr) return;
  said(cuCtxPushCurrent(to->handle), "cuCtxPushCurrent %s", to->name.c_str());
}

void session::pop_context() {
  CUcontext was = nullptr;
  said(cuCtxPopCurrent(one_in(4) ? nullptr : &was), "cuCtxPopCurrent");
  say("  then %s", name_of(current()).c_str());
}

void session::create_context() {
  if (places_.size() > 6) return;
  place made{fresh('c'), nullptr, some_device(), false};
  if (said(cuCtxCreate(&made.handle, nullptr, 0, made.device), "cuCtxCreate %s on %d", made.name.c_str(),
           made.device) == 0) {
    places_.push_back(made);
  }
}

void session::destroy_context() {
  place* const found = some_place();
  if (found == nullptr) return;
  if (found->primary) {
    if (!tame_) said(cuCtxDestroy(found->handle), "cuCtxDestroy %s, a primary one", found->name.c_str());
    return;
  }
  place const gone = *found;
  if (said(cuCtxDestroy(gone.handle), "cuCtxDestroy %s", gone.name.c_str()) != CUDA_SUCCESS) return;
  look_for_ends();
  if (tame_) return;
  said(cuCtxSetCurrent(gone.handle), "cuCtxSetCurrent %s, which is gone", gone.name.c_str());
  CUdeviceptr left = 0;
  said(cuMemAlloc(&left, 4096), "cuMemAlloc after it");
  if (left != 0) cuMemFree(left);
}

void session::retain_primary() {
  int const device = number_ < 6 ? static_cast<int>(number_ / 3) % devices_ : some_device();
  place made{"primary " + std::to_string(device), nullptr, device, true};
  if (said(cuDevicePrimaryCtxRetain(&made.handle, device), "cuDevicePrimaryCtxRetain %d", device) != 0)
    return;
  bool const known = std::any_of(places_.begin(), places_.end(),
                                 [&](place const& each) { return each.handle == made.handle; });
  if (!known) places_.push_back(made);
  primaries_[device] = made.handle;
}

void session::release_primary() {
  int const device = some_device();
  if (said(cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease %d", device) != CUDA_SUCCESS) return;
  unsigned flags = 0;
  int active = 0;
  said(cuDevicePrimaryCtxGetState(device, &flags, &active), "cuDevicePrimaryCtxGetState %d", device);
  say("  active %d", active);
}

void session::reset_primary() {
  int const device = some_device();
  said(cuDevicePrimaryCtxReset(device), "cuDevicePrimaryCtxReset %d", device);
}

void session::synchronize() {
  place const* const of = some_place();
  if (of == nullptr || one_in(2)) return void(said(cuCtxSynchronize(), "cuCtxSynchronize"));
  said(cuCtxSynchronize_v2(of->handle), "cuCtxSynchronize %s", of->name.c_str());
}

void session::peer_access() {
  place const* const to = some_place();
  if (to == nullptr) return;
  if (one_in(3)) {
    said(cuCtxDisablePeerAccess(to->handle), "cuCtxDisablePeerAccess %s", to->name.c_str());
  } else {
    said(cuCtxEnablePeerAccess(to->handle, one_in(10)), "cuCtxEnablePeerAccess %s", to->name.c_str());
  }
}

// Made, used and destroyed, or left until its device's primary context ends.
void session::green_context() {
  if (tame_) return;  // 580.159 ends the process where the device's whole resource is taken
  CUdevResource all{};
  CUdevResourceDesc description{};
  int const device = static_cast<int>(below(static_cast<unsigned>(devices_)));
  if (said(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource") != 0)
    return;
  if (said(cuDevResourceGenerateDesc(&description, &all, 1), "cuDevResourceGenerateDesc") != 0) return;
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  queue made{fresh('s'), nullptr, nullptr};
  if (said(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM),
           "cuGreenCtxCreate on %d", device) != 0)
    return;
  said(cuCtxFromGreenCtx(&context, green), "cuCtxFromGreenCtx");
  said(cuGreenCtxStreamCreate(&made.handle, green, CU_STREAM_NON_BLOCKING, 0), "cuGreenCtxStreamCreate");
  CUcontext const before = current();
  said(cuCtxSetCurrent(context), "cuCtxSetCurrent of it");
  CUdeviceptr plain = 0, ordered = 0, legacy = 0;
  said(cuMemAlloc(&plain, 10'000), "cuMemAlloc there");
  said(cuMemAllocAsync(&ordered, 5000, made.handle), "cuMemAllocAsync there");
  said(cuMemAllocAsync(&legacy, 5000, CU_STREAM_LEGACY), "cuMemAllocAsync there, legacy");
  if (ordered != 0) said(cuMemFreeAsync(ordered, made.handle), "cuMemFreeAsync there");
  if (legacy != 0) said(cuMemFreeAsync(legacy, CU_STREAM_PER_THREAD), "cuMemFreeAsync there, per thread");
  if (plain != 0) said(cuMemFree(plain), "cuMemFree there");
  cuCtxSetCurrent(before);
  said(cuStreamDestroy(made.handle), "cuStreamDestroy");
  said(cuGreenCtxDestroy(green), "cuGreenCtxDestroy");
}

}  // namespace transcript
