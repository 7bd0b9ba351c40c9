// See contexts.hpp.
#include "core/route/contexts.hpp"

#include <cstdio>
#include <new>
#include <string>
#include <utility>

#include "core/base/log.hpp"
#include "core/stats/state_page.hpp"
#include "core/stream_order/one_stream.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::route {

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

namespace {

// What is in use before this process took anything through a hook: its context, and other processes. Later
// growth of what is unseen is told from it.
void look_first(CUcontext context, int device) noexcept {
  auto& gauges = stats::gauges(device);
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  if (stats::get(gauges.first_unseen) != 0 ||
      stream_order::active_captures.load(std::memory_order_acquire) != 0) {
    return;
  }
  stream_order::current_context here(context);
  if (driver::real.cuMemGetInfo_v2(&free_bytes, &total) != CUDA_SUCCESS) return;
  std::uint64_t const used = total - free_bytes;
  std::uint64_t const seen = stats::get(gauges.reserved) + stats::get(gauges.observed);
  stats::set(gauges.used, used);
  stats::set(gauges.used_at_ns, stats::elapsed_ns());
  stats::set(gauges.first_unseen, used > seen ? used - seen : 1);  // 0 says that nobody looked
}

void log_passthrough(int device, char const* why) noexcept {
  char text[256];
  std::snprintf(text, sizeof text,
                "device %d: its chain could not be built (%s); memory goes straight to the driver", device,
                why);
  base::log_line(base::log_level::warn, text);
}

template <std::size_t... numbers>
std::array<resource::habitat, max_chains> homes(space::atlas& where, peers const& access,
                                                stream_order::epochs& order, CUcontext context, int device,
                                                rule_set const* rules,
                                                std::index_sequence<numbers...>) noexcept {
  auto const kind = [rules](std::size_t number) {
    if (number < kinds) return static_cast<driver::memory_kind>(number);
    return rules != nullptr ? rules->kind_of(number) : driver::memory_kind::device;
  };
  auto const reach = [&](std::size_t number) {
    return kind(number) == driver::memory_kind::device ? access.mask_of(device) : nullptr;
  };
  return {{{where, order, context, device, kind(numbers), give_back, reach(numbers), numbers}...}};
}

}  // namespace

context_entry::context_entry(space::atlas& where, peers const& access, CUcontext context, int device_number,
                             rule_set const* rules)
    : handle(context),
      device(device_number),
      order(context, device_number),
      homes_(homes(where, access, order, context, device_number, rules,
                   std::make_index_sequence<max_chains>())) {
  for (std::size_t i = 0; rules != nullptr && i < rules->size(); ++i) {
    rule const& r = (*rules)[i];
    bool const here = r.device < 0 || r.device == device;
    rule_nodes_.push_back(here ? stats::register_node("rule " + std::to_string(i + 1), "rule", 0, device,
                                                      "rules", r.label + ": " + r.serves)
                               : stats::max_nodes - 1);
  }
}

resource::chain* context_entry::make_chain(std::size_t k, chain_factory factory) noexcept {
  if (made_[k].load(std::memory_order_acquire)) return chains_[k].load(std::memory_order_acquire);
  std::lock_guard lock(mutex_);
  if (made_[k].load(std::memory_order_relaxed)) return chains_[k].load(std::memory_order_relaxed);
  try {
    stream_order::relaxed_mode relaxed(true);
    stream_order::current_context here(handle);
    resource::chain* const made = factory(homes_[k]).release();
    chains_[k].store(made, std::memory_order_release);
    if (made != nullptr) quick_[k].store(made->top().quick(), std::memory_order_release);
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

void contexts::add_green(CUcontext context, CUcontext primary) noexcept {
  std::lock_guard lock(mutex_);
  if (find_green(context) != nullptr) return;
  auto* made = new (std::nothrow) green_context{context, primary};
  if (made == nullptr) return;
  made->next = greens_.load(std::memory_order_relaxed);
  greens_.store(made, std::memory_order_release);
}

// What was handed out while one order was promised may still be in use by work from before: that ends here.
void contexts::end_one_stream(char const* why) noexcept {
  if (!stream_order::one_stream.load(std::memory_order_relaxed) || !stream_order::one_stream.exchange(false))
    return;
  each([](context_entry& e) { e.order.synchronize(); });
  char text[160];
  std::snprintf(text, sizeof text, "%s: from now on free = \"one_stream\" is as \"deferred\"", why);
  base::log_line(base::log_level::warn, text);
}

context_entry* contexts::find_or_make(CUcontext context) noexcept {
  if (auto* found = find(context); found != nullptr) return found;
  if (auto const* green = find_green(context); green != nullptr) return find_or_make(green->primary);
  std::lock_guard lock(mutex_);
  if (auto* found = find(context); found != nullptr) return found;
  if (first_.load(std::memory_order_relaxed) != nullptr) end_one_stream("a second context is used");
  CUdevice device = 0;
  {
    stream_order::current_context here(context);
    if (driver::real.cuCtxGetDevice(&device) != CUDA_SUCCESS) return nullptr;
  }
  register_device(device);
  look_first(context, device);
  context_entry* made = nullptr;
  try {
    made = new context_entry(where_, access_, context, device, rules_);
  } catch (std::bad_alloc const&) {
    return nullptr;
  }
  made->next = first_.load(std::memory_order_relaxed);
  first_.store(made, std::memory_order_release);
  return made;
}

}  // namespace gpumem::route
