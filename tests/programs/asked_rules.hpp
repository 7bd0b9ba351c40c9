// The parts of asked_rules that need more than a thread's calls: memory of another process, mappings, and
// what the end of a context takes along; and how all parts ask. Used by asked_rules alone; any thread.
#pragma once

#include <cuda.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string_view>

#include "tests/programs/driver_support.hpp"

namespace programs {

constexpr std::size_t mib = 1 << 20;

inline void show(const char* what, int code) {
  std::printf("%-42s %d\n", what, code);
}

// Each device's primary context, retained and current.
inline CUcontext primary(int device) {
  CUcontext made = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&made, device));
  REQUIRE(cuCtxSetCurrent(made));
  return made;
}

inline CUstream stream_of_own() {
  CUstream made = nullptr;
  REQUIRE(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
  return made;
}

inline CUresult device_address(void* host) {
  CUdeviceptr address = 0;
  return cuMemHostGetDevicePointer(&address, host, 0);
}

// What is known of an address, without touching it.
inline void ask(const char* what, CUdeviceptr address) {
  unsigned type = 0x55;
  CUcontext owner = nullptr;
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  const CUresult of_type = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  const CUresult of_owner = cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address);
  const CUresult range = cuMemGetAddressRange(&base, &bytes, address);
  CUcontext current = nullptr;
  REQUIRE(cuCtxGetCurrent(&current));
  std::printf("asked of %s: type %d %#x, context %d %s, range %d %s %zu\n", what, of_type, type, of_owner,
              owner == nullptr   ? "none"
              : owner == current ? "the current"
                                 : "another",
              range,
              base == 0         ? "none"
              : base == address ? "from there"
                                : "from before",
              bytes);
}

inline void holds(const char* what, CUdeviceptr address, unsigned char value) {
  unsigned char seen[2] = {};
  const CUresult code = cuMemcpyDtoH(seen, address + 4096, sizeof seen);
  std::printf("%s: %d, %d\n", what, code, seen[0] == value && seen[1] == value);
}

// --- memory of another process --------------------------------------------------------------------------

struct exports {
  CUipcMemHandle whole, middle, small, other;
};

inline CUresult open(CUdeviceptr& address, const CUipcMemHandle& handle,
                     unsigned flags = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) {
  return cuIpcOpenMemHandle(&address, handle, flags);
}

// How many closes it takes, and what the next one says.
inline void close_all(const char* what, CUdeviceptr address) {
  int closed = 0;
  CUresult code = CUDA_SUCCESS;
  while (closed < 4 && (code = cuIpcCloseMemHandle(address)) == CUDA_SUCCESS) ++closed;
  std::printf("%s: closed %d times, then %d\n", what, closed, code);
}

inline void next(int in, int out) {
  char token = 1;
  transfer(true, out, &token, 1);
  transfer(false, in, &token, 1);
}

inline void open_twice(const exports& from, int in, int out) {
  CUdeviceptr whole = 0, again = 0, middle = 0, small = 0, other = 0;
  show("opened, no flags", open(whole, from.whole, 0));
  show("opened, flags 2", open(whole, from.whole, 2));
  show("opened", open(whole, from.whole));
  show("opened again", open(again, from.whole));
  std::printf("  there: %d\n", again == whole);
  show("opened by its middle", open(middle, from.middle));
  std::printf("  at its begin: %d\n", middle == whole);
  ask("what was opened", whole);
  CUipcMemHandle handle{};
  show("exported from here", cuIpcGetMemHandle(&handle, whole));
  show("freed", cuMemFree(whole));
  show("closed at its middle", cuIpcCloseMemHandle(whole + 4 * mib));
  show("opened, small", open(small, from.small));
  show("opened, its neighbour", open(other, from.other));
  ask("it", small);
  ask("its neighbour", other);
  close_all("small", small);
  ask("its neighbour", other);
  close_all("its neighbour", other);
  const CUdeviceptr own = make(mib);
  show("closed, what is this process's", cuIpcCloseMemHandle(own));
  show("closed, null", cuIpcCloseMemHandle(0));
  next(in, out);
  holds("it is there after its free", whole, 0x21);
  close_all("what was opened", whole);
  REQUIRE(drop(own));
}

inline void open_of_ended(const exports& from, int in, int out) {
  const CUcontext first = primary(0);
  CUcontext made = nullptr;
  CUdeviceptr whole = 0, again = 0;
  REQUIRE(cuCtxCreate_v2(&made, 0, 0));
  show("opened in a context of its own", open(whole, from.whole));
  REQUIRE(cuCtxSetCurrent(first));
  show("opened in another one", open(again, from.whole));
  std::printf("  there: %d\n", again == whole);
  if (again != 0 && again != whole) close_all("there", again);
  REQUIRE(cuCtxDestroy(made));
  ask("what was opened, after its context", whole);
  show("closed then", cuIpcCloseMemHandle(whole));
  show("opened again", open(again, from.whole));
  next(in, out);
  if (again == 0) return;
  holds("it is there after the exporter's context", again, 0x21);
  close_all("it", again);
}

inline int import(std::string_view mode, int in, int out) {
  exports from{};
  transfer(false, in, &from, sizeof from);
  REQUIRE(cuInit(0));
  primary(0);
  if (mode == "ipc") open_twice(from, in, out);
  if (mode == "ipc_ended") open_of_ended(from, in, out);
  if (mode == "ipc_freed") {
    CUdeviceptr address = 0;
    next(in, out);
    show("opened after its free", open(address, from.whole));
  }
  next(in, out);
  return 0;
}

inline void export_to(std::string_view mode, int in, int out) {
  exports made{};
  REQUIRE(cuInit(0));
  primary(0);
  CUcontext own = nullptr;
  if (mode == "ipc_ended") REQUIRE(cuCtxCreate_v2(&own, 0, 0));
  const CUdeviceptr whole = make(8 * mib), small = make(1000), other = make(1000);
  REQUIRE(cuMemsetD8(whole, 0x21, 8 * mib));
  REQUIRE(cuCtxSynchronize());
  show("cuIpcGetMemHandle", cuIpcGetMemHandle(&made.whole, whole));
  show("of its middle", cuIpcGetMemHandle(&made.middle, whole + 4 * mib));
  show("of a small block", cuIpcGetMemHandle(&made.small, small));
  show("of another", cuIpcGetMemHandle(&made.other, other));
  std::printf("  the middle's is the same: %d, the neighbour's: %d\n",
              std::memcmp(&made.whole, &made.middle, sizeof made.whole) == 0,
              std::memcmp(&made.small, &made.other, sizeof made.small) == 0);
  transfer(true, out, &made, sizeof made);
  char token = 0;
  transfer(false, in, &token, 1);
  if (own != nullptr) {
    show("the exporter's context destroyed", cuCtxDestroy(own));
  } else {
    show("freed by the exporter", drop(whole));
    REQUIRE(cuCtxSynchronize());
  }
  transfer(true, out, &token, 1);
  transfer(false, in, &token, 1);
  transfer(true, out, &token, 1);
}

inline int of_another_process(std::string_view mode) {
  int there[2], back[2];
  REQUIRE(pipe(there));
  REQUIRE(pipe(back));
  const pid_t child = fork();
  if (child == 0) {
    ::close(there[1]);
    ::close(back[0]);
    return import(mode, there[0], back[1]);
  }
  ::close(there[0]);
  ::close(back[1]);
  export_to(mode, back[0], there[1]);
  int status = 0;
  REQUIRE_CODE(waitpid(child, &status, 0), child);
  std::printf("importer ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  return 0;
}

// --- mappings -------------------------------------------------------------------------------------------

inline CUmemAllocationProp on_device() {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  return wanted;
}

inline void created() {
  CUmemAllocationProp wanted = on_device();
  CUmemGenericAllocationHandle made = 0;
  const auto create = [&](const char* what, std::size_t bytes, unsigned flags = 0) {
    made = 0;
    show(what, cuMemCreate(&made, bytes, &wanted, flags));
    if (made != 0) REQUIRE(cuMemRelease(made));
  };
  create("cuMemCreate, no bytes", 0);
  create("1 MiB", mib);
  create("flags 1", 2 * mib, 1);
  create("1 TiB", std::size_t{1} << 40);
  wanted.location.id = 99;
  create("of device 99", 2 * mib);
  wanted = on_device();
  wanted.location.type = CU_MEM_LOCATION_TYPE_INVALID;
  create("nowhere", 2 * mib);
  wanted = on_device();
  wanted.type = CU_MEM_ALLOCATION_TYPE_INVALID;
  create("of no type", 2 * mib);
}

inline void flags_of(const char* what, CUdeviceptr address) {
  const CUmemLocation at{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  unsigned long long flags = 0x55;
  const CUresult code = cuMemGetAccess(&flags, &at, address);
  std::printf("  access %s: %d %#llx\n", what, code, flags);
}

inline void virtual_memory() {
  created();
  const CUmemAllocationProp wanted = on_device();
  CUmemGenericAllocationHandle handle = 0, again = 0;
  CUdeviceptr at = 0, none = 0;
  std::size_t before = 0, after = 0, total = 0;
  REQUIRE(cuMemGetInfo(&before, &total));
  REQUIRE(cuMemCreate(&handle, 4 * mib, &wanted, 0));
  REQUIRE(cuMemGetInfo(&after, &total));
  std::printf("4 MiB took %zu MiB\n", (before - after) / mib);
  show("1 MiB reserved", cuMemAddressReserve(&none, mib, 0, 0, 0));
  show("aligned by 3 MiB", cuMemAddressReserve(&none, 4 * mib, 3 * mib, 0, 0));
  show("16 MiB", cuMemAddressReserve(&at, 16 * mib, 0, 0, 0));
  ask("what is reserved", at);
  const auto map = [&](const char* what, std::size_t where, std::size_t bytes, std::size_t offset) {
    show(what, cuMemMap(at + where * mib, bytes * mib, offset * mib, handle, 0));
  };
  map("mapped", 0, 4, 0);
  flags_of("before any was set", at);
  map("mapped there again", 0, 4, 0);
  map("over its second half", 2, 4, 0);
  map("twice its bytes", 8, 8, 0);
  map("its second half", 8, 2, 2);
  map("its first half", 4, 2, 0);
  show("exported", cuMemExportToShareableHandle(&total, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  const auto access = [&](const char* what, std::size_t where, std::size_t bytes, CUmemAccess_flags flags,
                          int device = 0) {
    const CUmemAccessDesc wish{{CU_MEM_LOCATION_TYPE_DEVICE, {device}}, flags};
    show(what, cuMemSetAccess(at + where * mib, bytes * mib, &wish, 1));
  };
  access("access", 0, 4, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  flags_of("of all", at);
  access("to read", 0, 4, CU_MEM_ACCESS_FLAGS_PROT_READ);
  flags_of("to read", at);
  access("none", 0, 4, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  flags_of("of none", at);
  access("of its first half", 0, 2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  flags_of("there", at);
  flags_of("of its second half", at + 2 * mib);
  access("where nothing is mapped", 12, 4, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  access("there and beyond", 0, 16, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  access("of device 99", 0, 4, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 99);
  access("access", 0, 4, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  show("retained by its middle", cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(at + 3 * mib)));
  std::printf("  the same handle: %d\n", again == handle);
  show("released", cuMemRelease(again));
  show("released", cuMemRelease(handle));
  ask("the mapping", at);
  show("cuMemFree of it", cuMemFree(at));
  show("cuMemFreeAsync of it", cuMemFreeAsync(at, CU_STREAM_LEGACY));
  show("given back while mapped", cuMemAddressFree(at, 16 * mib));
  show("unmapped", cuMemUnmap(at, 16 * mib));
  show("unmapped again", cuMemUnmap(at, 16 * mib));
  show("half of it given back", cuMemAddressFree(at, 8 * mib));
  show("given back", cuMemAddressFree(at, 16 * mib));
  show("again", cuMemAddressFree(at, 16 * mib));
  REQUIRE(cuMemGetInfo(&after, &total));
  std::printf("%zu MiB are left\n", (before - after) / mib);
}

// A mapping that begins in what is reserved and ends beyond it, which a driver takes (580.159) and the
// simulated one does not; and mappings side by side.
inline void virtual_beyond() {
  const CUmemAllocationProp wanted = on_device();
  const CUmemAccessDesc access{wanted.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr at = 0, next = 0;
  REQUIRE(cuMemCreate(&handle, 4 * mib, &wanted, 0));
  REQUIRE(cuMemAddressReserve(&at, 16 * mib, 0, 0, 0));
  REQUIRE(cuMemAddressReserve(&next, 16 * mib, 0, 0, 0));
  std::printf("the next one is behind it: %d, before it: %d\n", next == at + 16 * mib, next + 16 * mib == at);
  const auto map = [&](const char* what, CUdeviceptr where) {
    show(what, cuMemMap(where, 4 * mib, 0, handle, 0));
    ask("it", where);
    show("  access", cuMemSetAccess(where, 4 * mib, &access, 1));
    show("  unmapped by its reservation's bytes", cuMemUnmap(where, at + 16 * mib - where));
    show("  unmapped", cuMemUnmap(where, 4 * mib));
  };
  map("its last 2 MiB and 2 more", at + 14 * mib);
  const CUdeviceptr upper = std::max(at, next);
  map("2 MiB behind the upper one", upper + 18 * mib);
  map("where nothing is reserved", upper + 512 * mib);
  CUmemGenericAllocationHandle second = 0;
  REQUIRE(cuMemCreate(&second, 4 * mib, &wanted, 0));
  show("side by side", cuMemMap(at, 4 * mib, 0, handle, 0));
  show("side by side", cuMemMap(at + 4 * mib, 4 * mib, 0, second, 0));
  show("access of both", cuMemSetAccess(at, 8 * mib, &access, 1));
  show("access across", cuMemSetAccess(at + 2 * mib, 4 * mib, &access, 1));
  show("access of no bytes", cuMemSetAccess(at, 0, &access, 1));
  show("access of both and what is behind", cuMemSetAccess(at, 12 * mib, &access, 1));
  show("unmapped across", cuMemUnmap(at + 2 * mib, 4 * mib));
  show("the second unmapped with what is behind", cuMemUnmap(at + 4 * mib, 8 * mib));
  show("the first", cuMemUnmap(at, 4 * mib));
  show("given back with bytes too few", cuMemAddressFree(at, 8 * mib));
  show("given back", cuMemAddressFree(at, 16 * mib));
  show("given back", cuMemAddressFree(next, 16 * mib));
  show("released", cuMemRelease(handle));
  show("released", cuMemRelease(second));
}

// --- the end of a context -------------------------------------------------------------------------------

struct ending {
  CUcontext stays, ends;

  ending() : stays(primary(0)), ends(nullptr) { REQUIRE(cuCtxCreate_v2(&ends, 0, 0)); }
  void end() const {
    REQUIRE(cuCtxSynchronize());
    show("destroyed", cuCtxDestroy(ends));
    REQUIRE(cuCtxSetCurrent(stays));
  }
};

inline void end_of_a_context() {
  const ending of;
  CUdeviceptr managed = 0, range = 0;
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp wanted = on_device();
  const CUmemAccessDesc access{wanted.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const CUdeviceptr plain = make(mib);
  REQUIRE(cuMemAllocManaged(&managed, mib, CU_MEM_ATTACH_GLOBAL));
  REQUIRE(cuMemCreate(&handle, 4 * mib, &wanted, 0));
  REQUIRE(cuMemAddressReserve(&range, 4 * mib, 0, 0, 0));
  REQUIRE(cuMemMap(range, 4 * mib, 0, handle, 0));
  REQUIRE(cuMemSetAccess(range, 4 * mib, &access, 1));
  REQUIRE(cuMemsetD8(range, 4, 4 * mib));
  show("a limit that there is not", cuCtxSetLimit(static_cast<CUlimit>(15), 1 << 20));
  show("the heap's", cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * mib));
  of.end();
  ask("plain memory", plain);
  show("freed", cuMemFree(plain));
  ask("managed memory", managed);
  show("freed", cuMemFree(managed));
  ask("a mapping", range);
  holds("  it is there", range, 4);
  show("unmapped", cuMemUnmap(range, 4 * mib));
  show("released", cuMemRelease(handle));
  show("given back", cuMemAddressFree(range, 4 * mib));
}

// Two of each kind: they may lie side by side in what one allocation of the driver holds.
inline void end_of_host_memory() {
  const ending of;
  void* blocks[6] = {};
  for (int i = 0; i < 4; ++i) REQUIRE(cuMemHostAlloc(&blocks[i], mib, i < 2 ? 0 : CU_MEMHOSTALLOC_PORTABLE));
  for (int i = 4; i < 6; ++i) REQUIRE(cuMemAllocHost(&blocks[i], mib));
  of.end();
  for (void* each : blocks) ask("it", reinterpret_cast<CUdeviceptr>(each));
  for (void* each : blocks) show("freed", cuMemFreeHost(each));
}

inline void end_of_a_pools_memory() {
  CUmemoryPool pool = nullptr;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  REQUIRE(cuMemPoolCreate(&pool, &properties));
  const ending of;
  CUdeviceptr ordered = 0;
  REQUIRE(cuMemAllocFromPoolAsync(&ordered, mib, pool, CU_STREAM_LEGACY));
  REQUIRE(cuMemsetD8(ordered, 4, mib));
  of.end();
  ask("it", ordered);
  holds("  it is there", ordered, 4);
  show("freed", cuMemFreeAsync(ordered, CU_STREAM_LEGACY));
  show("the pool destroyed", cuMemPoolDestroy(pool));
  show("the end of it all", cuCtxSynchronize());
}

}  // namespace programs
