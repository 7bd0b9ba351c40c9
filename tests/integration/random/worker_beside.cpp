// See worker.hpp. Here: what programs do beside requests and frees: they ask about addresses, trim pools, map
// and register memory of their own, and work in parts of a context. The answers are those of plain CUDA.
#include <algorithm>
#include <cstdlib>

#include "tests/integration/random/worker.hpp"

namespace random_program {

// Nobody else has the block meanwhile.
void worker::ask() {
  std::optional<block> taken = here().take(random_);
  if (!taken) return;
  CUdeviceptr const inside =
      taken->address + below(static_cast<unsigned>(std::min<std::size_t>(taken->bytes, 1u << 31)));
  taken->on_host() ? ask_host(inside) : ask_device(*taken, inside);
  here().keep(std::move(*taken));
}

void worker::ask_device(block const& b, CUdeviceptr inside) {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  CUresult const code = cuMemGetAddressRange(&base, &bytes, inside);
  check(code, "cuMemGetAddressRange");
  if (code != CUDA_SUCCESS) return;
  if (base != b.address || bytes < b.bytes)
    fault("%llx is in a block of %zu bytes at %llx, not %zu at %llx", inside, bytes, base, b.bytes,
          b.address);
  int device = -1;
  unsigned managed = 2;
  CUdeviceptr begin = 0;
  void* answers[] = {&device, &managed, &begin};
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
  CHECK(cuPointerGetAttributes(std::size(asked), asked, answers, inside));
  bool const as_natively = device == here().device && managed == (b.kind == memory::managed ? 1u : 0u);
  if (begin != b.address || (!as_natively && !other_memory))
    fault("attributes of %llx: device %d, managed %u, begin %llx", inside, device, managed, begin);
}

void worker::ask_host(CUdeviceptr inside) {
  CUdeviceptr there = 0;
  unsigned flags = 0;
  CHECK(cuMemHostGetDevicePointer(&there, reinterpret_cast<void*>(inside), 0));
  CHECK(cuMemHostGetFlags(&flags, reinterpret_cast<void*>(inside)));
  // Not whether it is portable: of some that was asked for so a driver says that it is not (580.159, of one
  // in two beside other page-locked memory).
  if (there != inside || (flags & CU_MEMHOSTALLOC_DEVICEMAP) == 0)
    fault("page-locked memory at %llx is at %llx for the device, flags %x", inside, there, flags);
}

void worker::trim() {
  CUmemoryPool of_device = nullptr;
  CHECK(cuDeviceGetDefaultMemPool(&of_device, here().device));
  CHECK(cuMemPoolTrimTo(below(2) == 0 ? of_device : here().pool, 0));
  std::size_t left = 0, all = 0;
  CHECK(cuMemGetInfo(&left, &all));
  if (left > all) fault("%zu of %zu bytes are free", left, all);
}

void worker::map_own_memory() {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {here().device}};
  std::size_t const bytes = (1 + below(4)) * (std::size_t{2} << 20);
  CUmemGenericAllocationHandle memory = 0;
  CUresult const code = cuMemCreate(&memory, bytes, &wanted, 0);
  if (code == CUDA_ERROR_OUT_OF_MEMORY)
    return;  // so says a limit of the chain as well, which no fallback serves
  if (!got(code, "of a mapping")) return;
  // Where a call fails, as tests make them do, nothing is touched that is not there or may be in use.
  auto const done = [](CUresult answer, char const* what) {
    check(answer, what);
    return answer == CUDA_SUCCESS;
  };
  CUdeviceptr address = 0;
  if (!done(cuMemAddressReserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve")) return;
  CUmemAccessDesc const access{wanted.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  bool const mapped = done(cuMemMap(address, bytes, 0, memory, 0), "cuMemMap");
  if (mapped && done(cuMemSetAccess(address, bytes, &access, 1), "cuMemSetAccess")) {
    CUstream const on = own()[0];
    unsigned const value = below(1u << 30);
    unsigned seen = value;
    CUdeviceptr const last = address + bytes - 4;
    bool const written = done(cuMemsetD32Async(last, value, 1, on), "cuMemsetD32Async");
    bool const read = done(cuMemcpyDtoHAsync(&seen, last, 4, on), "cuMemcpyDtoHAsync");
    if (!done(cuStreamSynchronize(on), "cuStreamSynchronize")) return;
    if (written && read && seen != value) fault("a mapping has %x, not %x", seen, value);
  }
  if (mapped) CHECK(cuMemUnmap(address, bytes));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(address, bytes));
}

void worker::register_own_memory() {
  std::size_t const bytes = 4096 * (1 + below(32));
  void* const own = std::aligned_alloc(4096, bytes);
  if (own == nullptr) return;
  if (got(cuMemHostRegister(own, bytes, CU_MEMHOSTREGISTER_PORTABLE), "to register")) {
    unsigned flags = 0;
    CHECK(cuMemHostGetFlags(&flags, own));
    CHECK(cuMemHostUnregister(own));
  }
  std::free(own);
}

// Its streams and memory are those of the primary context; who makes one gives up the shortest ways to know
// that a stream has no work, so that only a program that does so often does it at all.
void worker::work_in_part() {
  if (!here().primary) return;
  CUdevResource all{};
  CUdevResourceDesc description = nullptr;
  CUgreenCtx part = nullptr;
  CUstream stream = nullptr;
  CHECK(cuDeviceGetDevResource(here().device, &all, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(cuDevResourceGenerateDesc(&description, &all, 1));
  CHECK(cuGreenCtxCreate(&part, description, here().device, CU_GREEN_CTX_DEFAULT_STREAM));
  CHECK(cuGreenCtxStreamCreate(&stream, part, CU_STREAM_NON_BLOCKING, 0));
  allocate_on(stream);
  block b;
  b.bytes = some_size();
  b.kind = memory::ordered;
  if (obtain(b, stream)) {
    touch(b, stream, true);
    device_work::gives(b, stream);
    CHECK(cuMemFreeAsync(b.address, stream));
    for (CUevent const e : b.uses) CHECK(cuEventDestroy(e));
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuGreenCtxDestroy(part));
}

}  // namespace random_program
