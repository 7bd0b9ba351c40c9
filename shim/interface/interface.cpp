// The functions of gpumem.h, for programs that ask while they run. Called by the program on any thread, with
// nothing of ours held; no hot path comes here. Never throws, and starts nothing: where there was no CUDA
// call yet there is nothing to tell.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <string_view>

#define GPUMEM_BUILDS_THE_LIBRARY
#include "core/base/clock.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/report/output/write_reports.hpp"
#include "core/stats/page/state_page.hpp"
#include "core/stats/snapshot.hpp"
#include "shim/hooks/dispatch.hpp"
#include "shim/include/gpumem/gpumem.h"
#include "shim/phases/phase_scope.hpp"
#include "shim/process/settings.hpp"

using namespace gpumem;
using namespace gpumem::shim;

namespace {

// Asked for by a process that goes on: nothing of what it holds is left at its end.
report::document_options while_it_runs(stats::snapshot const& now) {
  report::document_options how = settings::report_options().document;
  how.written_by = "gpumem_get_report";
  how.alive = true;
  how.end = stats::end_record{};
  how.end->duration_ns = base::now_ns() - now.opened_mono_ns;
  return how;
}

// The figures of this moment; `use` gets them and says what to return.
template <typename Use>
int with_snapshot(Use use) noexcept try {
  base::uncancelled const held;
  if (process::state.load(std::memory_order_acquire) != process::life::running) return GPUMEM_NOT_STARTED;
  hook_scope const scope;
  if (!scope) return GPUMEM_NOT_STARTED;
  route::measure();
  stats::snapshot_result const taken = stats::take_snapshot();
  return taken.error.empty() ? use(taken.value) : static_cast<int>(GPUMEM_NOT_STARTED);
} catch (std::bad_alloc const&) {
  return GPUMEM_NO_MEMORY;
} catch (...) {
  return GPUMEM_NOT_STARTED;
}

gpumem_statistics statistics_of(stats::device_totals const& device) noexcept {
  return {.size = sizeof(gpumem_statistics),
          .requested = device.now.requested,
          .highest_requested = std::max(device.gauges.highest_since_reset, device.now.requested),
          .reserved = device.now.reserved,
          .cached = device.now.cached + device.now.pending,
          .observed = device.now.observed,
          .allocations = device.counters.allocated_blocks,
          .frees = device.counters.freed_blocks,
          .refusals = device.counters.out_of_memory};
}

}  // namespace

extern "C" {

int gpumem_api_version(void) {
  return GPUMEM_API_VERSION;
}

int gpumem_get_statistics(int device, gpumem_statistics* result) {
  if (result == nullptr || result->size <= offsetof(gpumem_statistics, requested)) return GPUMEM_INVALID;
  return with_snapshot([&](stats::snapshot const& now) -> int {
    auto const found = std::find_if(now.devices.begin(), now.devices.end(),
                                    [device](auto const& each) { return each.ordinal == device; });
    if (found == now.devices.end()) return GPUMEM_INVALID;
    gpumem_statistics told = statistics_of(*found);
    told.size = std::min(result->size, sizeof told);
    std::memcpy(result, &told, told.size);
    return GPUMEM_OK;
  });
}

int gpumem_reset_peak(int device) {
  return with_snapshot([&](stats::snapshot const& now) -> int {
    if (std::ranges::none_of(now.devices, [device](auto const& each) { return each.ordinal == device; }))
      return GPUMEM_INVALID;
    stats::reset_peak(device);
    return GPUMEM_OK;
  });
}

int gpumem_trim(uint64_t* bytes) {
  base::uncancelled const held;
  if (process::state.load(std::memory_order_acquire) != process::life::running) return GPUMEM_NOT_STARTED;
  hook_scope const scope;
  if (!scope) return GPUMEM_NOT_STARTED;
  CUcontext const context = current_context();
  if (context == nullptr) return GPUMEM_INVALID;
  std::uint64_t const given = route::give_back(context, resource::give_back_scope::all);
  if (bytes != nullptr) *bytes = given;
  return GPUMEM_OK;
}

int gpumem_get_report(char* buffer, size_t size, size_t* needed) {
  if (buffer == nullptr && size != 0) return GPUMEM_INVALID;
  return with_snapshot([&](stats::snapshot const& now) -> int {
    std::string const text = report::json_text(now, while_it_runs(now));
    if (needed != nullptr) *needed = text.size() + 1;
    if (size <= text.size()) return GPUMEM_TOO_SMALL;
    std::memcpy(buffer, text.c_str(), text.size() + 1);
    return GPUMEM_OK;
  });
}

int gpumem_phase_begin(char const* name) {
  if (phases_are_off()) return GPUMEM_NOT_STARTED;
  phase_scope const scope;
  if (scope) {
    std::string_view const given = name == nullptr ? "" : name;
    phases::begin(phases::name_of_phase("", given.substr(0, 512)), own_stack);
  } else {
    phases::pass_over();
  }
  return GPUMEM_OK;
}

int gpumem_phase_end(void) {
  if (phases_are_off()) return GPUMEM_NOT_STARTED;
  phase_scope const scope;
  return (scope ? phases::end(own_stack) : phases::was_passed_over()) ? GPUMEM_OK : GPUMEM_INVALID;
}
}
