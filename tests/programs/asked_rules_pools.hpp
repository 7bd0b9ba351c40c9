// The parts of asked_rules about memory pools that a program makes: their attributes and access, what is
// refused, and one that is destroyed while a block of it lives. Used by asked_rules alone; any thread.
#pragma once

#include <cuda.h>

#include "tests/programs/asked_rules.hpp"

namespace programs {

inline void attributes_of(CUmemoryPool pool) {
  for (int which = 1; which <= 8; ++which) {
    auto const attribute = static_cast<CUmemPool_attribute>(which);
    cuuint64_t value = 0, seven = 7, none = 0;
    std::printf("attribute %d\n", which);
    show("  get", cuMemPoolGetAttribute(pool, attribute, &value));
    std::printf("  %d\n", static_cast<int>(value != 0));
    show("  set to 7", cuMemPoolSetAttribute(pool, attribute, &seven));
    show("  get", cuMemPoolGetAttribute(pool, attribute, &value));
    std::printf("  %llu\n", static_cast<unsigned long long>(value == 7 || value < 2 ? value : 99));
    show("  set to 0", cuMemPoolSetAttribute(pool, attribute, &none));
    show("  null", cuMemPoolGetAttribute(pool, attribute, nullptr));
  }
  cuuint64_t value = 0;
  show("attribute 0", cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(0), &value));
}

inline void access_of(CUmemoryPool pool) {
  auto const set = [&](const char* what, CUmemLocationType type, int device, CUmemAccess_flags flags) {
    CUmemAccessDesc access{{type, {device}}, flags};
    show(what, cuMemPoolSetAccess(pool, &access, 1));
  };
  set("access of its device: all", CU_MEM_LOCATION_TYPE_DEVICE, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  set("none", CU_MEM_LOCATION_TYPE_DEVICE, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  set("reads", CU_MEM_LOCATION_TYPE_DEVICE, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
  set("access of device 99", CU_MEM_LOCATION_TYPE_DEVICE, 99, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  set("access of device -1", CU_MEM_LOCATION_TYPE_DEVICE, -1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  set("access of the host", CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  show("no access at all", cuMemPoolSetAccess(pool, nullptr, 0));
}

inline void pools() {
  CUmemoryPool of_device = nullptr, current = nullptr, made = nullptr;
  REQUIRE(cuDeviceGetDefaultMemPool(&of_device, 0));
  show("the default pool destroyed", cuMemPoolDestroy(of_device));
  auto const create = [&](const char* what, CUmemPoolProps properties) {
    CUmemoryPool wrong = nullptr;
    show(what, cuMemPoolCreate(&wrong, &properties));
    if (wrong != nullptr) show("  destroyed", cuMemPoolDestroy(wrong));
  };
  CUmemPoolProps usual{};
  usual.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  usual.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemPoolProps wrong = usual;
  create("a pool", usual);
  wrong.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
  create("of no type", wrong);
  wrong = usual;
  wrong.location.type = CU_MEM_LOCATION_TYPE_INVALID;
  create("nowhere", wrong);
  wrong = usual;
  wrong.handleTypes = static_cast<CUmemAllocationHandleType>(0x40);
  create("of handles that there are not", wrong);
  wrong = usual;
  wrong.maxSize = 64 * mib;
  REQUIRE(cuMemPoolCreate(&made, &wrong));
  CUstream const on = stream_of_own();
  CUdeviceptr first = 0, second = 0;
  show("48 MiB of a pool of at most 64", cuMemAllocFromPoolAsync(&first, 48 * mib, made, on));
  show("48 MiB more", cuMemAllocFromPoolAsync(&second, 48 * mib, made, on));
  show("a free of its inside", cuMemFreeAsync(first + 512, on));
  ask("its memory", first);
  show("trimmed while in use", cuMemPoolTrimTo(made, 0));
  show("a fill", cuMemsetD8Async(first, 3, 48 * mib, on));
  show("a free", cuMemFreeAsync(first, on));
  show("48 MiB again, before its end", cuMemAllocFromPoolAsync(&second, 48 * mib, made, on));
  show("a free without a stream", cuMemFree(second));
  REQUIRE(cuCtxSynchronize());
  attributes_of(made);
  access_of(made);
  show("current", cuDeviceSetMemPool(0, made));
  show("current, device 99", cuDeviceSetMemPool(99, made));
  show("destroyed while current", cuMemPoolDestroy(made));
  REQUIRE(cuDeviceGetMemPool(&current, 0));
  std::printf("  then the default one is: %d\n", current == of_device);
  show("a request", cuMemAllocAsync(&first, mib, on));
  show("a free", cuMemFreeAsync(first, on));
  REQUIRE(cuStreamSynchronize(on));
}

inline void pool_in_use() {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr;
  REQUIRE(cuMemPoolCreate(&pool, &properties));
  CUstream const on = stream_of_own();
  CUdeviceptr blocks[2] = {};
  for (CUdeviceptr& each : blocks) REQUIRE(cuMemAllocFromPoolAsync(&each, 4 * mib, pool, on));
  REQUIRE(cuMemsetD8Async(blocks[0], 9, mib, on));
  REQUIRE(cuStreamSynchronize(on));
  show("a pool destroyed while in use", cuMemPoolDestroy(pool));
  holds("  its memory is there", blocks[0], 9);
  CUmemoryPool of = nullptr;
  show("whose it is", cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, blocks[0]));
  std::printf("  that pool: %d\n", of == pool);
  ask("it", blocks[0]);
  show("a free in order", cuMemFreeAsync(blocks[0], on));
  show("a free without a stream", cuMemFree(blocks[1]));
  show("the end of it all", cuCtxSynchronize());
  ask("what was freed last", blocks[1]);
}

// The next ones are others, as long as a block of it lives.
inline void pool_that_ended() {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr, next[4] = {}, of = nullptr, current = nullptr;
  CUdeviceptr block = 0, more = 0;
  CUstream const on = stream_of_own();
  REQUIRE(cuMemPoolCreate(&pool, &properties));
  REQUIRE(cuDeviceSetMemPool(0, pool));
  REQUIRE(cuMemAllocFromPoolAsync(&block, mib, pool, on));
  show("a pool destroyed while in use", cuMemPoolDestroy(pool));
  REQUIRE(cuDeviceGetMemPool(&current, 0));
  std::printf("it is current still: %d\n", current == pool);
  bool again = false;
  for (CUmemoryPool& each : next) {
    REQUIRE(cuMemPoolCreate(&each, &properties));
    again = again || each == pool;
  }
  std::printf("another one has its handle: %d\n", again);
  auto const used = [&](const char* when) {
    cuuint64_t bytes = 0;
    REQUIRE(cuMemPoolGetAttribute(next[0], CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes));
    std::printf("the next one uses, %s: %llu\n", when, static_cast<unsigned long long>(bytes));
  };
  REQUIRE(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block));
  std::printf("the block is of the one that ended: %d\n", of == pool);
  REQUIRE(cuMemAllocFromPoolAsync(&more, 2 * mib, next[0], on));
  used("with a block of its own");
  show("a free of the old block", cuMemFreeAsync(block, on));
  used("after that");
  REQUIRE(cuMemFreeAsync(more, on));
  REQUIRE(cuStreamSynchronize(on));
  for (CUmemoryPool each : next) show("destroyed", cuMemPoolDestroy(each));
}

}  // namespace programs
