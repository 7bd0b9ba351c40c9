// See limits.hpp.
#include "core/route/limits.hpp"

#include <algorithm>

#include "core/base/mutant.hpp"
#include "core/driver/context_id.hpp"
#include "core/driver/error.hpp"
#include "core/driver/question.hpp"
#include "core/phases/phases.hpp"
#include "core/recording/writer/record.hpp"
#include "core/resource/adaptors/budget.hpp"
#include "core/route/router_state.hpp"
#include "core/stats/page/state_page.hpp"
#include "core/stream_order/relaxed_mode.hpp"
#include "core/stream_order/watched_calls.hpp"

namespace gpumem::route {

namespace {

// Set once, before the first request; a forked child has the same configuration.
constinit limit_maker maker = nullptr;

void make_limits(int device) noexcept {
  if (maker == nullptr || present == nullptr) return;
  auto& made = present->limits_made[stats::device_slot(device)];
  if (made.load(std::memory_order_acquire)) return;
  stream_order::relaxed_mode relaxed;
  if (maker(device)) made.store(true, std::memory_order_release);
}

template <typename Visit>
void each_chain_of(int device, Visit visit) noexcept {
  if (present == nullptr) return;
  present->known.each([&](context_entry& e) {
    if (e.device == device) e.each_device_chain(visit);
  });
}

// With what the chains of its device hold.
void note_unserved(refused_request const& request, driver::allocation_failed const& why) noexcept {
  resource::idle_usage now;
  stats::free_blocks free;
  if (is_refusal_kept()) {
    each_chain_of(request.device, [&](resource::chain& c) {
      resource::idle_usage const here = c.measure();
      now.idle += here.idle;
      now.largest = std::max(now.largest, here.largest);
      c.count_free(free);
    });
  }
  note_refusal(request, why, now, free);
}

// The driver says so before it asks how much is left (measured: dead_context).
bool has_current_ended() noexcept {
  CUcontext current = nullptr;
  return driver::asked(driver::real.cuCtxGetCurrent, &current) == CUDA_SUCCESS && current != nullptr &&
         driver::is_over(current) && !GPUMEM_MUTANT(limit_under_ended);
}

}  // namespace

void use_limits(limit_maker wanted) noexcept {
  maker = wanted;
}

bool may_have_limits(int device) noexcept {
  make_limits(device);
  bool const may_come = maker != nullptr && present != nullptr &&
                        !present->limits_made[stats::device_slot(device)].load(std::memory_order_acquire);
  return may_come || resource::budget::any(device);
}

CUresult admit(observed_request const& wanted) noexcept {
  if (!may_have_limits(wanted.device)) return CUDA_SUCCESS;
  resource::budget const* against = nullptr;
  if (resource::observed_use::admit(wanted.device, wanted.bytes, against)) return CUDA_SUCCESS;
  CUresult const forbidden = wanted.captures_forbid ? stream_order::ask_captures() : CUDA_SUCCESS;
  if (forbidden != CUDA_SUCCESS) return forbidden;
  if (wanted.in_current_context && has_current_ended()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  // Idle segments count: they go first, as they do when the driver refuses.
  if (against->may_hold_idle()) {
    for (auto const scope : {resource::give_back_scope::done, resource::give_back_scope::all}) {
      give_back_on(wanted.device, scope);
      if (resource::observed_use::admit(wanted.device, wanted.bytes, against)) return CUDA_SUCCESS;
    }
  }
  note_unserved({.bytes = wanted.bytes, .hook = wanted.hook, .device = wanted.device},
                against->refusal(wanted.bytes));
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void withdraw(int device, std::uint64_t bytes) noexcept {
  if (may_have_limits(device)) resource::observed_use::withdraw(device, bytes);
}

void hold(observed_bytes const& held, std::uint64_t admitted) noexcept {
  // No chain was asked for there.
  if (stats::get(stats::gauges(held.device).total) == 0) register_device(held.device);
  stays(held);
  if (may_have_limits(held.device)) resource::observed_use::hold(held.device, held.bytes, admitted);
}

void stays(observed_bytes const& held) noexcept {
  stats::count_sampled(held.sampled);
  stats::gauge_add(stats::library_gauges_of(held.device, held.library).observed, held.bytes);
  resource::observed_use::enter(held.device, held.bytes, held.movable);
  stats::sample_if_grown(held.device);
}

void leaves(observed_bytes const& held) noexcept {
  stats::count_sampled_free(held.sampled);
  stats::gauge_subtract(stats::library_gauges_of(held.device, held.library).observed, held.bytes);
  resource::observed_use::leave(held.device, held.bytes, held.movable);
}

void has_left(observed_bytes const& held) noexcept {
  if (may_have_limits(held.device)) resource::observed_use::let_go(held.device, held.bytes);
}

std::uint64_t total_memory(int device, std::uint64_t total) noexcept {
  make_limits(device);
  resource::budget::each(device, [&total](resource::budget& b) {
    if (b.report_as_total()) total = std::min(total, b.limit());
  });
  return total;
}

// Cached memory counts as free: the next request can have it.
memory_info tell_memory(CUcontext context, memory_info const& real) noexcept {
  CUdevice device = 0;
  if (context == nullptr || driver::asked(driver::real.cuCtxGetDevice, &device) != CUDA_SUCCESS) return real;
  make_limits(device);
  memory_info told{std::min(real.total, real.free + idle_bytes(context)), real.total};
  resource::budget::each(device, [&](resource::budget& b) {
    std::uint64_t idle = 0;
    if (b.may_hold_idle()) each_chain_of(device, [&](resource::chain& c) { idle += c.idle_in(b); });
    told.free = std::min({told.free, b.left() + idle, b.limit()});
    if (b.report_as_total()) told.total = std::min(told.total, b.limit());
  });
  return told;
}

void refused_by_driver(refused_request const& request) noexcept {
  if (request.device < 0) return;
  if (stats::get(stats::gauges(request.device).total) == 0) register_device(request.device);
  note_unserved(request, driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, "driver", "no memory left"));
}

void note_refusal(refused_request const& request, driver::allocation_failed const& why,
                  resource::idle_usage const& now, stats::free_blocks const& free) noexcept {
  if (request.kind != driver::memory_kind::host) {
    if (why.code() == CUDA_ERROR_OUT_OF_MEMORY)
      stats::add(stats::local().devices[stats::device_slot(request.device)].out_of_memory, 1);
    recording::note_if_on({.bytes = request.bytes,
                           .stream = request.stream,
                           .number = static_cast<std::uint32_t>(why.code()),
                           .what = recording::action::refused,
                           .device = static_cast<std::uint8_t>(request.device)});
  }
  std::uint64_t const reserved = stats::get(stats::gauges(request.device).reserved);
  bool const is_kept = is_refusal_kept();
  stats::call_site const asked_at =
      is_kept ? stats::site_of_refused(stats::device_slot(request.device), request.caller) : stats::no_site;
  stats::note_failure({.bytes = request.bytes,
                       .stream = request.stream,
                       .in_use = reserved > now.idle ? reserved - now.idle : 0,
                       .cached = now.idle,
                       .largest_free = now.largest,
                       .code = why.code(),
                       .hook = request.hook,
                       .device = request.device,
                       .refused_by = static_cast<std::uint32_t>(why.kind()),
                       .asked_at = asked_at,
                       .phase = is_kept ? phases::innermost() : 0,
                       .free = &free,
                       .reason = why.what()});
}

}  // namespace gpumem::route
