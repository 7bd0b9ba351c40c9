// See session.hpp. Here: what a program asks about addresses, memory and functions.
#include "tests/integration/random/transcript/session.hpp"

namespace transcript {

namespace {

struct question {
  CUpointer_attribute which;
  char const* name;
};

constexpr question questions[] = {
    {CU_POINTER_ATTRIBUTE_CONTEXT, "context"},
    {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "memory type"},
    {CU_POINTER_ATTRIBUTE_DEVICE_POINTER, "device pointer"},
    {CU_POINTER_ATTRIBUTE_HOST_POINTER, "host pointer"},
    {CU_POINTER_ATTRIBUTE_IS_MANAGED, "managed"},
    {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, "device"},
    {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, "range start"},
    {CU_POINTER_ATTRIBUTE_RANGE_SIZE, "range size"},
    {CU_POINTER_ATTRIBUTE_MAPPED, "mapped"},
    {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, "pool"},
    {CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, "sync memops"},
    {CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, "handle types"},
    {CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "access flags"},
};

}  // namespace

void session::address_range() {
  block const* const found = some_block();
  if (found == nullptr || found->context != current()) return;  // a driver knows it there alone
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  std::size_t const offset = some_offset(*found);
  unsigned const form = below(4);
  CUresult const code = said(cuMemGetAddressRange(form == 1 ? nullptr : &base, form == 2 ? nullptr : &bytes,
                                                  found->address + offset),
                             "cuMemGetAddressRange %s+%zu, form %u", found->name.c_str(), offset, form);
  if (code == CUDA_SUCCESS) say("  from %s, %zu", where(base).c_str(), bytes);
}

void session::attribute() {
  block const* const found = some_block();
  if (found == nullptr) return;
  question const& asked = questions[below(std::size(questions))];
  std::size_t const offset = one_in(2) ? 0 : some_offset(*found);
  unsigned long long value = 0;
  CUresult const code = said(cuPointerGetAttribute(&value, asked.which, found->address + offset),
                             "%s of %s+%zu", asked.name, found->name.c_str(), offset);
  if (code != CUDA_SUCCESS) return;
  switch (asked.which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return say("  %s", name_of(reinterpret_cast<CUcontext>(value)).c_str());
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return say("  %s", name_of(reinterpret_cast<CUmemoryPool>(value)).c_str());
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return say("  %s", where(value).c_str());
    default:
      say("  %llu", value);
  }
}

void session::attributes() {
  block const* const found = some_block();
  static char of_the_program[64];
  bool const foreign = found == nullptr || one_in(8);
  CUmemorytype type{};
  CUcontext context = nullptr;
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  int device = 99;
  unsigned managed = 99;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_CONTEXT,
                                 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void* data[] = {&type, &context, &start, &bytes, &device, &managed};
  CUdeviceptr const address = foreign ? reinterpret_cast<CUdeviceptr>(of_the_program) : found->address;
  said(cuPointerGetAttributes(6, which, data, address), "cuPointerGetAttributes of %s",
       foreign ? "a variable" : found->name.c_str());
  say("  type %u, %s, from %s, %zu, device %d, managed %u", static_cast<unsigned>(type),
      name_of(context).c_str(), where(start).c_str(), bytes, device, managed);
}

void session::memory_info() {
  std::size_t available = 0, total = 0;
  int const device = some_device();
  switch (below(4)) {
    case 0:
      return void(said(cuMemGetInfo(nullptr, &total), "cuMemGetInfo null") == 0);
    case 1:
      if (said(cuDeviceTotalMem(&total, device), "cuDeviceTotalMem %d", device) == 0) say("  %zu", total);
      return;
    default:
      if (said(cuMemGetInfo(&available, &total), "cuMemGetInfo") != 0) return;
      say("  %zu, %s", total, available <= total ? "some free" : "MORE FREE THAN THERE IS");
  }
}

void session::ipc() {
  block const* const found = some_block();
  // Stream-ordered memory, which a driver does not export, is exported where the chain's own memory can be.
  if (found == nullptr || found->made == kind::ordered) return;
  CUipcMemHandle handle{};
  std::size_t const offset = one_in(2) ? 0 : some_offset(*found);
  CUresult const code = said(cuIpcGetMemHandle(one_in(20) ? nullptr : &handle, found->address + offset),
                             "cuIpcGetMemHandle %s+%zu", found->name.c_str(), offset);
  if (code != CUDA_SUCCESS) return;
  CUdeviceptr mapped = 0;
  said(cuIpcOpenMemHandle(&mapped, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
       "cuIpcOpenMemHandle of its own");
  said(cuIpcCloseMemHandle(found->address), "cuIpcCloseMemHandle %s", found->name.c_str());
}

// What a program sets on a block must be gone for the next owner: new blocks are asked at once.
void session::sync_memops() {
  block const* const found = some_block();
  if (found == nullptr) return;
  unsigned value = below(2);
  said(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, found->address),
       "cuPointerSetAttribute %s, %u", found->name.c_str(), value);
  block const& newest = blocks_.back();
  unsigned seen = 99;
  said(cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, newest.address), "sync memops of %s",
       newest.name.c_str());
  say("  %u", seen);
}

void session::advise() {
  block const* const found = some_block();
  if (found == nullptr) return;
  CUmemLocation const at{CU_MEM_LOCATION_TYPE_DEVICE, {some_device()}};
  auto const advice = static_cast<CUmem_advise>(1 + below(6));
  queue const on = some_stream();
  if (found->made != kind::managed) return;
  if (one_in(2) || found->bytes > most_moved) {
    said(cuMemAdvise(found->address, found->bytes, advice, at), "cuMemAdvise %s, %u", found->name.c_str(),
         advice);
  } else {
    said(cuMemPrefetchAsync(found->address, found->bytes, at, 0, on.handle), "cuMemPrefetchAsync %s on %s",
         found->name.c_str(), on.name.c_str());
  }
}

void session::look_up() {
  static char const* const names[] = {"cuMemAlloc",         "cuMemFree",        "cuMemAllocAsync",
                                      "cuStreamCreate",     "cuMemGetInfo",     "cuStreamBeginCapture",
                                      "cuCtxSynchronize",   "cuNothing",        "cuGetProcAddress",
                                      "cuIpcOpenMemHandle", "cuMemHostRegister"};
  static int const versions[] = {0, 2000, 3020, 4010, 10010, 11000, 11020, 12000, 13000};
  char const* const name = names[below(std::size(names))];
  int const version = versions[below(std::size(versions))];
  unsigned const flags = below(4);
  void* found = nullptr;
  CUdriverProcAddressQueryResult result{};
  said(cuGetProcAddress(name, &found, version, flags, &result), "cuGetProcAddress %s, %d, %u", name, version,
       flags);
  say("  %s, %u", found == nullptr ? "none" : "there", static_cast<unsigned>(result));
}

}  // namespace transcript
