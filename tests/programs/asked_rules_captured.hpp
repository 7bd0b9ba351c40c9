// The part of asked_rules about calls on managed memory, and frees of null, on a stream that captures, whose
// capture was spoilt, and without a current context. Used by asked_rules alone; any thread.
#pragma once

#include <cuda.h>

#include <functional>
#include <vector>

#include "tests/programs/asked_rules.hpp"

namespace programs {

struct stream_call {
  const char* name;
  std::function<CUresult(CUstream)> make;
};

// CUDA 12.8 and newer have batches, under names that a later header may give another form.
inline std::vector<stream_call> calls_of_managed_memory(CUdeviceptr managed, CUdeviceptr plain) {
  static const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  static CUdeviceptr addresses[2];
  static std::size_t sizes[] = {mib, mib}, first[] = {0};
  static CUmemLocation places[] = {device};
  addresses[0] = managed;
  addresses[1] = plain;
  return {
      {"cuMemFreeAsync(0)", [](CUstream on) { return cuMemFreeAsync(0, on); }},
      {"cuStreamAttachMemAsync",
       [=](CUstream on) { return cuStreamAttachMemAsync(on, managed, 0, CU_MEM_ATTACH_GLOBAL); }},
      {"cuStreamAttachMemAsync of plain memory",
       [=](CUstream on) { return cuStreamAttachMemAsync(on, plain, 0, CU_MEM_ATTACH_GLOBAL); }},
      {"cuStreamAttachMemAsync, single",
       [=](CUstream on) { return cuStreamAttachMemAsync(on, managed, 0, CU_MEM_ATTACH_SINGLE); }},
      {"cuMemAdvise",
       [=](CUstream) { return cuMemAdvise(managed, mib, CU_MEM_ADVISE_SET_ACCESSED_BY, device); }},
      {"cuMemAdvise of plain memory",
       [=](CUstream) { return cuMemAdvise(plain, mib, CU_MEM_ADVISE_SET_ACCESSED_BY, device); }},
      {"cuMemRangeGetAttribute",
       [=](CUstream) {
         int value = 0;
         return cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, mib);
       }},
      {"cuMemPrefetchAsync", [=](CUstream on) { return cuMemPrefetchAsync(managed, mib, device, 0, on); }},
      {"cuMemPrefetchAsync of plain memory",
       [=](CUstream on) { return cuMemPrefetchAsync(plain, mib, device, 0, on); }},
      {"cuMemPrefetchAsync to device 99",
       [=](CUstream on) {
         return cuMemPrefetchAsync(managed, mib, {CU_MEM_LOCATION_TYPE_DEVICE, {99}}, 0, on);
       }},
      {"cuMemPrefetchBatchAsync",
       [](CUstream on) { return cuMemPrefetchBatchAsync(addresses, sizes, 1, places, first, 1, 0, on); }},
      {"cuMemPrefetchBatchAsync of plain memory",
       [](CUstream on) { return cuMemPrefetchBatchAsync(addresses, sizes, 2, places, first, 1, 0, on); }},
      {"cuMemDiscardBatchAsync",
       [](CUstream on) { return cuMemDiscardBatchAsync(addresses, sizes, 1, 0, on); }},
      {"cuMemDiscardBatchAsync of plain memory",
       [](CUstream on) { return cuMemDiscardBatchAsync(addresses, sizes, 2, 0, on); }},
      {"cuMemDiscardAndPrefetchBatchAsync",
       [](CUstream on) {
         return cuMemDiscardAndPrefetchBatchAsync(addresses, sizes, 1, places, first, 1, 0, on);
       }},
      {"cuMemDiscardAndPrefetchBatchAsync of plain",
       [](CUstream on) {
         return cuMemDiscardAndPrefetchBatchAsync(addresses, sizes, 2, places, first, 1, 0, on);
       }},
  };
}

inline void ask_captured(const char* when, const stream_call& call, CUstream on, bool spoilt) {
  CUgraph made = nullptr;
  std::size_t nodes = 0;
  REQUIRE(cuStreamBeginCapture(on, CU_STREAM_CAPTURE_MODE_RELAXED));
  if (spoilt) cuStreamSynchronize(on);
  const CUresult code = call.make(on);
  const CUresult end = cuStreamEndCapture(on, &made);
  if (made != nullptr) REQUIRE(cuGraphGetNodes(made, nullptr, &nodes));
  std::printf("  %s: %d, the end %d, nodes %zu\n", when, code, end, nodes);
  if (made != nullptr) REQUIRE(cuGraphDestroy(made));
}

// On a stream that captures, and on another one beside a capture of each mode.
inline void around_captures(const stream_call& call, CUstream on, CUstream beside) {
  ask_captured("captured", call, on, false);
  ask_captured("of a spoilt capture", call, on, true);
  for (const CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    CUgraph made = nullptr;
    REQUIRE(cuStreamBeginCapture(on, mode));
    const CUresult code = call.make(beside);
    std::printf("  beside a capture of mode %d: %d, its end %d\n", mode, code, cuStreamEndCapture(on, &made));
    if (made != nullptr) REQUIRE(cuGraphDestroy(made));
  }
}

// Less than a page, and what is beyond it.
inline void managed_small() {
  constexpr std::size_t bytes = 60;
  CUdeviceptr block = 0;
  REQUIRE(cuMemAllocManaged(&block, bytes, CU_MEM_ATTACH_GLOBAL));
  const CUstream on = stream_of_own();
  CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  for (const bool advised : {false, true}) {
    if (advised) show("advised", cuMemAdvise(block, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
    for (std::size_t length : {std::size_t{1}, bytes, bytes + 1, std::size_t{4096}, std::size_t{4097},
                               std::size_t{65536}, 2 * mib}) {
      std::printf("%zu bytes of %zu\n", length, bytes);
      CUdeviceptr addresses[] = {block, block, block};
      std::size_t sizes[] = {length, length, length}, first[] = {0};
      int value = 0;
      show("  advice", cuMemAdvise(block, length, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
      show("  taken back", cuMemAdvise(block, length, CU_MEM_ADVISE_UNSET_READ_MOSTLY, device));
      show("  an attribute",
           cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, block, length));
      show("  a prefetch", cuMemPrefetchAsync(block, length, device, 0, on));
      for (const std::size_t count : {std::size_t{1}, std::size_t{3}}) {
        show("  prefetches", cuMemPrefetchBatchAsync(addresses, sizes, count, &device, first, 1, 0, on));
        show("  discards", cuMemDiscardBatchAsync(addresses, sizes, count, 0, on));
        show("  both", cuMemDiscardAndPrefetchBatchAsync(addresses, sizes, count, &device, first, 1, 0, on));
      }
    }
  }
  REQUIRE(cuCtxSynchronize());
  REQUIRE(drop(block));
}

// What else of a stream that captures, or beside one that does.
inline void captured_oddly() {
  const CUstream on = stream_of_own(), beside = stream_of_own();
  CUevent between = nullptr, untimed = nullptr, timed = nullptr;
  CUgraph empty = nullptr;
  REQUIRE(cuEventCreate(&between, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  REQUIRE(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  REQUIRE(cuEventCreate(&timed, CU_EVENT_DEFAULT));
  REQUIRE(cuEventRecord(timed, beside));
  REQUIRE(cuStreamSynchronize(beside));
  REQUIRE(cuGraphCreate(&empty, 0));
  float time = 0;
  const stream_call calls[] = {
      {"an event for other processes", [=](CUstream to) { return cuEventRecord(between, to); }},
      {"recorded as external",
       [=](CUstream to) { return cuEventRecordWithFlags(untimed, to, CU_EVENT_RECORD_EXTERNAL); }},
      {"time of an event without", [&](CUstream) { return cuEventElapsedTime(&time, untimed, untimed); }},
      {"time between events", [&](CUstream) { return cuEventElapsedTime(&time, timed, timed); }},
      {"no result", [&](CUstream) { return cuEventElapsedTime(nullptr, timed, timed); }},
      {"cuGraphInstantiateWithFlags",
       [&](CUstream) {
         CUgraphExec made = nullptr;
         const CUresult code = cuGraphInstantiateWithFlags(&made, empty, 0);
         if (made != nullptr) cuGraphExecDestroy(made);
         return code;
       }},
  };
  for (const stream_call& each : calls) {
    std::printf("%s\n", each.name);
    around_captures(each, on, beside);
  }
}

inline void managed_captured() {
  CUdeviceptr managed = 0;
  const CUdeviceptr plain = make(mib);
  REQUIRE(cuMemAllocManaged(&managed, mib, CU_MEM_ATTACH_GLOBAL));
  const CUstream on = stream_of_own(), beside = stream_of_own();
  CUcontext current = nullptr;
  REQUIRE(cuCtxGetCurrent(&current));
  for (const stream_call& each : calls_of_managed_memory(managed, plain)) {
    std::printf("%s\n", each.name);
    show("  as usual", each.make(on));
    around_captures(each, on, beside);
    REQUIRE(cuCtxSetCurrent(nullptr));
    show("  without a context", each.make(on));
    show("  on the legacy stream of none", each.make(CU_STREAM_LEGACY));
    REQUIRE(cuCtxSetCurrent(current));
    show("  on the legacy stream", each.make(CU_STREAM_LEGACY));
    show("  on the null stream", each.make(nullptr));
    REQUIRE(cuCtxSynchronize());
  }
  REQUIRE(drop(managed));
  REQUIRE(drop(plain));
}

}  // namespace programs
