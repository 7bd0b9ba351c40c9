/* The controls of the simulated CUDA: what a test says to the stand-in driver that no CUDA function says.
   Exported by the stand-in libcuda.so.1 as plain C functions, callable from any thread. A program that does
   not link that library uses the C++ class at the end, which finds them at run time and does nothing on a
   real driver. Nothing here is part of CUDA: never call it from the library under test. */
#pragma once

#include <cuda.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One byte range that a simulated kernel touches. */
typedef struct simulated_access {
  CUdeviceptr address;
  size_t bytes;
  int writes; /* 0: reads only */
} simulated_access;

/* Puts a kernel on `stream` that touches the given ranges and runs `duration_ns` of simulated time. */
CUresult simulatedLaunch(CUstream stream, simulated_access const* accesses, unsigned count,
                         unsigned long long duration_ns);
CUresult simulatedLaunch_ptsz(CUstream stream, simulated_access const* accesses, unsigned count,
                              unsigned long long duration_ns);

/* Puts a kernel on `stream` that faults after `duration_ns`: from then on every call about work or memory of
   its context gives `code`, and once one did, of any context of the process, for good. */
CUresult simulatedFault(CUstream stream, int code, unsigned long long duration_ns);

/* How often this thread has waited for work inside a driver call, whoever made it. */
unsigned long long simulatedHostWaits(void);

/* The clock. Automatic (the default): each driver call takes 500 ns. Manual: only waits and these calls move
 * it. */
void simulatedClockManual(int manual);
void simulatedAdvance(unsigned long long ns);
void simulatedRunAll(void); /* until nothing is pending; the host is not ordered after it */
unsigned long long simulatedNow(void);

/* What the program was given and gave back, above the driver: makes one allocation distinct from the next one
   at the same address. Programs linked with the stand-in runtime call them by themselves, or the runtime does
   for them; a driver API test calls them after a successful allocation and before the free. */
void simulatedNoteAllocate(CUdeviceptr address, size_t bytes, CUstream stream);
void simulatedNoteFree(CUdeviceptr address, CUstream stream);
void simulatedNoteFreeRefused(CUdeviceptr address); /* the free that this thread noted failed */
/* 1: this thread's caller notes, what is noted below is said twice. Returns what held before. */
int simulatedNotesAbove(int noted);

/* Accesses that nothing ordered, since the start or the last clear. Text stays valid until the next clear. */
unsigned long long simulatedHazardCount(void);
char const* simulatedHazardText(unsigned long long index);
void simulatedHazardClear(void);
// Allocations of device memory on which SYNC_MEMOPS is set.
unsigned long long simulatedSyncMemops(void);

/* What the driver holds, in bytes as they were asked for: what it is to be compared with whoever keeps a
   ledger. A block that was freed is not held, also where its bytes wait for work. */
enum simulated_memory {
  simulated_plain,
  simulated_managed,
  simulated_pooled, /* stream-ordered, in use */
  simulated_array,
  simulated_virtual, /* of cuMemCreate, until its last handle and map are gone */
  simulated_graph,
  simulated_pinned, /* by the device whose context made it */
  simulated_memory_kinds
};
unsigned long long simulatedHeld(int device, int kind);
/* What cuMemGetInfo counts: the above but pinned memory, with the driver's rounding, what its pools keep, and
   what contexts take for themselves (GPUMEM_SIMULATED_CONTEXT). */
unsigned long long simulatedInUse(int device);
/* The most that was in use at any moment. */
unsigned long long simulatedMostInUse(int device);
/* Device memory that the program noted as allocated and not as freed, now and at most so far. */
unsigned long long simulatedLive(int device);
unsigned long long simulatedMostLive(int device);

/* Calls of one driver function by its exported name, or of all of them (name null). */
unsigned long long simulatedCounters(char const* name);
void simulatedCountersReset(void);

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
#include <dlfcn.h>

/* The same for a program that links no libcuda: looked up at the first use. On a real driver `present` is
   false and the calls do nothing. */
namespace simulated_control {

template <class Function>
Function* find(char const* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

inline bool present() {
  return find<void()>("simulatedRunAll") != nullptr;
}

inline CUresult launch(CUstream stream, simulated_access const* accesses, unsigned count,
                       unsigned long long duration_ns) {
  static auto* const function = find<decltype(simulatedLaunch)>("simulatedLaunch");
  return function == nullptr ? CUDA_ERROR_NOT_FOUND : function(stream, accesses, count, duration_ns);
}
inline CUresult launch(CUstream stream, void* address, size_t bytes, unsigned long long duration_ns) {
  simulated_access const access = {reinterpret_cast<CUdeviceptr>(address), bytes, 1};
  return launch(stream, &access, 1, duration_ns);
}
inline CUresult fault(CUstream stream, int code, unsigned long long duration_ns) {
  static auto* const function = find<decltype(simulatedFault)>("simulatedFault");
  return function == nullptr ? CUDA_ERROR_NOT_FOUND : function(stream, code, duration_ns);
}
inline void clock_manual(bool manual) {
  if (auto* const function = find<decltype(simulatedClockManual)>("simulatedClockManual"))
    function(manual ? 1 : 0);
}
inline void advance(unsigned long long ns) {
  if (auto* const function = find<decltype(simulatedAdvance)>("simulatedAdvance")) function(ns);
}
inline void run_all() {
  if (auto* const function = find<decltype(simulatedRunAll)>("simulatedRunAll")) function();
}
inline unsigned long long hazards() {
  auto* const function = find<decltype(simulatedHazardCount)>("simulatedHazardCount");
  return function == nullptr ? 0 : function();
}
inline char const* hazard_text(unsigned long long index) {
  auto* const function = find<decltype(simulatedHazardText)>("simulatedHazardText");
  return function == nullptr ? "" : function(index);
}
inline void clear_hazards() {
  if (auto* const function = find<decltype(simulatedHazardClear)>("simulatedHazardClear")) function();
}
inline unsigned long long calls(char const* name) {
  auto* const function = find<decltype(simulatedCounters)>("simulatedCounters");
  return function == nullptr ? 0 : function(name);
}
inline unsigned long long in_use(int device) {
  auto* const function = find<decltype(simulatedInUse)>("simulatedInUse");
  return function == nullptr ? 0 : function(device);
}
inline unsigned long long most_in_use(int device) {
  auto* const function = find<decltype(simulatedMostInUse)>("simulatedMostInUse");
  return function == nullptr ? 0 : function(device);
}
inline unsigned long long sync_memops() {
  auto* const function = find<decltype(simulatedSyncMemops)>("simulatedSyncMemops");
  return function == nullptr ? 0 : function();
}
inline void reset_calls() {
  if (auto* const function = find<decltype(simulatedCountersReset)>("simulatedCountersReset")) function();
}

}  // namespace simulated_control
#endif
