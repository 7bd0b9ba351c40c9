// The controls of simulated.h, and the word at exit when hazards were found.
// Any thread. These calls are not counted and do not move the clock by themselves.
// The word at exit comes from the library's destructor: after the program, whatever it did last.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "entry.hpp"

using namespace simulated;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED CUresult simulatedLaunch(CUstream on, simulated_access const* accesses, unsigned count,
                                  unsigned long long duration) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  operation work;
  work.name = "kernel";
  work.duration = duration;
  work.accesses.assign(accesses, accesses + count);
  work.by_program = true;
  return m.submit(*where, std::move(work));
}

EXPORTED CUresult simulatedLaunch_ptsz(CUstream on, simulated_access const* accesses, unsigned count,
                                       unsigned long long duration) {
  per_thread_scope const scope;
  return simulatedLaunch(on, accesses, count, duration);
}

EXPORTED CUresult simulatedFault(CUstream on, int code, unsigned long long duration) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  operation work;
  work.name = "kernel that faults";
  work.duration = duration;
  context* const of = where->owner->home();
  work.action = [of, code] { of->fault = static_cast<CUresult>(code); };
  return m.submit(*where, std::move(work));
}

EXPORTED void simulatedClockManual(int manual) {
  machine& m = machine::get();
  std::lock_guard const guard(m.lock_);
  m.manual_clock_ = manual != 0;
}

EXPORTED void simulatedAdvance(unsigned long long ns) {
  machine& m = machine::get();
  std::lock_guard const guard(m.lock_);
  m.advance(m.now_ + ns);
}

EXPORTED void simulatedRunAll() {
  machine& m = machine::get();
  std::lock_guard const guard(m.lock_);
  m.run_all();
}

EXPORTED unsigned long long simulatedNow() {
  machine& m = machine::get();
  std::lock_guard const guard(m.lock_);
  return m.now_;
}

EXPORTED int simulatedNotesAbove(int noted) {
  return std::exchange(this_thread().noted_above, noted != 0) ? 1 : 0;
}

EXPORTED void simulatedNoteAllocate(CUdeviceptr address, size_t bytes, CUstream on) {
  if (this_thread().noted_above) return;
  machine& m = machine::get();
  std::lock_guard const guard(m.lock_);
  block const* const found = m.memory_.find(address, true);
  if (address != 0 && found == nullptr && !m.pageable_) {
    m.checker_.report("not allocated: the program was given memory that no driver allocation holds");
  }
  if (found != nullptr && found->kind == block_kind::graph) return;  // its order is the graph's
  // Mapped memory, and the host's, outlives a context; what a program was given in it does not.
  context const* const current = this_thread().current();
  bool const outlives = found == nullptr || found->kind == block_kind::mapping;
  bool const on_host =
      found != nullptr && (found->kind == block_kind::host || found->kind == block_kind::registered);
  int const device = on_host              ? -1
                     : found != nullptr   ? found->device
                     : current != nullptr ? current->device
                                          : 0;
  m.checker_.allocated(address, bytes, static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(on)),
                       device, outlives ? current : nullptr);
}

EXPORTED void simulatedNoteFree(CUdeviceptr address, CUstream) {
  if (this_thread().noted_above) return;
  machine& m = machine::get();
  std::lock_guard const guard(m.lock_);
  m.checker_.freed(address, this_thread().id);
}

EXPORTED void simulatedNoteFreeRefused(CUdeviceptr address) {
  if (this_thread().noted_above) return;
  machine& m = machine::get();
  std::lock_guard const guard(m.lock_);
  m.checker_.free_refused(address, this_thread().id);
}

EXPORTED unsigned long long simulatedHostWaits() {
  return this_thread().host_waits;
}

EXPORTED unsigned long long simulatedHazardCount() {
  machine& m = machine::get();
  std::lock_guard const guard(m.lock_);
  return m.checker_.count();
}

EXPORTED char const* simulatedHazardText(unsigned long long index) {
  machine& m = machine::get();
  std::lock_guard const guard(m.lock_);
  auto const& texts = m.checker_.texts();
  return index < texts.size() ? texts[index].c_str() : "";
}

EXPORTED void simulatedHazardClear() {
  machine& m = machine::get();
  std::lock_guard const guard(m.lock_);
  m.checker_.clear();
}

EXPORTED unsigned long long simulatedSyncMemops() {
  machine& m = machine::get();
  std::lock_guard const guard(m.lock_);
  unsigned long long set = 0;
  for (auto const& [base, each] : m.memory_.blocks())
    set += each.kind == block_kind::device && each.sync_memops;
  return set;
}

EXPORTED unsigned long long simulatedCounters(char const* name) {
  return machine::get().calls(name);
}
EXPORTED void simulatedCountersReset() {
  machine::get().reset_calls();
}

namespace {

__attribute__((destructor)) void report_at_exit() {
  machine& m = machine::get();
  if (m.forked() || m.checker_.count() == 0) return;
  auto const& texts = m.checker_.texts();
  std::fprintf(stderr, "simulated-cuda: %llu hazards\n", m.checker_.count());
  for (std::size_t i = 0; i < texts.size() && i < 5; ++i) {
    std::fprintf(stderr, "simulated-cuda: %s\n", texts[i].c_str());
  }
  if (m.strict_) _exit(99);
}

}  // namespace
