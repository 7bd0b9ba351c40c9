// See contexts.hpp.
#include "core/route/contexts.hpp"

#include <cstdio>
#include <new>

#include "core/base/log.hpp"
#include "core/stats/state_page.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::route {

namespace {

void register_device(int device) noexcept {
  auto const& real = driver::real;
  char name[96] = "";
  CUuuid uuid{};
  std::size_t total = 0;
  real.cuDeviceGetName(name, sizeof name, device);
  real.cuDeviceGetUuid(&uuid, device);
  real.cuDeviceTotalMem_v2(&total, device);
  char text[48] = "GPU-";
  int at = 4;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text[at++] = '-';
    std::snprintf(text + at, 3, "%02x", static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
    at += 2;
  }
  stats::register_device(device, name, text, total);
}

void log_passthrough(int device, char const* why) noexcept {
  char text[256];
  std::snprintf(text, sizeof text,
                "device %d: its chain could not be built (%s); memory goes straight to the driver", device,
                why);
  base::log_line(base::log_level::warn, text);
}

}  // namespace

context_entry::context_entry(space::atlas& where, peers const& access, CUcontext context,
                             int device_number) noexcept
    : handle(context),
      device(device_number),
      order(context, device_number),
      homes_{{{where, order, context, device_number, driver::memory_kind::device, give_back,
               access.mask_of(device_number)},
              {where, order, context, device_number, driver::memory_kind::managed, give_back},
              {where, order, context, device_number, driver::memory_kind::host, give_back}}} {}

resource::chain* context_entry::chain_of(driver::memory_kind kind, chain_factory factory) noexcept {
  auto const k = static_cast<std::size_t>(kind);
  if (made_[k].load(std::memory_order_acquire)) return chains_[k].load(std::memory_order_acquire);
  std::lock_guard lock(mutex_);
  if (made_[k].load(std::memory_order_relaxed)) return chains_[k].load(std::memory_order_relaxed);
  try {
    stream_order::relaxed_mode relaxed;
    stream_order::current_context here(handle);
    chains_[k].store(factory(homes_[k]).release(), std::memory_order_release);
  } catch (driver::allocation_failed const& failed) {
    log_passthrough(device, failed.what());
  } catch (std::bad_alloc const&) {
    log_passthrough(device, "no host memory");
  }
  made_[k].store(true, std::memory_order_release);
  return chains_[k].load(std::memory_order_relaxed);
}

void context_entry::forget() noexcept {
  gone.store(true, std::memory_order_release);
  order.abandon();
  each_chain([](resource::chain& c) { c.forget(); });
}

context_entry* contexts::find_or_make(CUcontext context) noexcept {
  if (auto* found = find(context); found != nullptr) return found;
  std::lock_guard lock(mutex_);
  if (auto* found = find(context); found != nullptr) return found;
  CUdevice device = 0;
  {
    stream_order::current_context here(context);
    if (driver::real.cuCtxGetDevice(&device) != CUDA_SUCCESS) return nullptr;
  }
  auto* made = new (std::nothrow) context_entry(where_, access_, context, device);
  if (made == nullptr) return nullptr;
  register_device(device);
  made->next = first_.load(std::memory_order_relaxed);
  first_.store(made, std::memory_order_release);
  return made;
}

}  // namespace gpumem::route
