// See session.hpp. Here: what holds of ranges of memory, several blocks in one call, whom managed memory is
// attached to, page-locked memory by its address, and the pools of managed memory that a driver has.
#include "tests/integration/random/transcript/session.hpp"

namespace transcript {

// A part of it, or its pages whole. How far a range may leave a block no GPU was asked.
session::part session::some_part(block const& of) {
  constexpr std::size_t page = 4096;
  switch (below(5)) {
    case 0:
      return {of.address, (of.bytes + 1) / 2};
    case 1:
      return {of.address, (of.bytes + page - 1) / page * page};
    case 2:
      return {of.address + (of.bytes > page ? page : 0), 1};
    default:
      return {of.address, of.bytes};
  }
}

void session::range_attribute() {
  block const* const found = some_block();
  if (found == nullptr) return;
  part const asked = some_part(*found);
  // Whether it is mostly read says the chain, where it has advised that; of the last prefetch a driver itself
  // knows but a part (docs/soak.md, open).
  auto which = static_cast<CUmem_range_attribute>(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION + below(2));
  auto other = CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION;
  int value[4] = {0x55, 0x55, 0x55, 0x55}, second = 0x55;
  std::size_t const bytes = which == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY ? sizeof value : sizeof *value;
  std::size_t const offset = asked.address - found->address;
  if (one_in(3)) {
    void* values[] = {value, &second};
    std::size_t sizes[] = {bytes, sizeof second};
    CUmem_range_attribute both[] = {which, other};
    said(cuMemRangeGetAttributes(values, sizes, both, 2, asked.address, asked.bytes),
         "cuMemRangeGetAttributes %u, %u of %s+%zu, %zu", which, other, found->name.c_str(), offset,
         asked.bytes);
  } else {
    said(cuMemRangeGetAttribute(value, bytes, which, asked.address, asked.bytes),
         "cuMemRangeGetAttribute %u of %s+%zu, %zu", which, found->name.c_str(), offset, asked.bytes);
  }
  say("  %d %d %d %d, %d", value[0], value[1], value[2], value[3], second);
}

void session::batch() {
  CUdeviceptr addresses[3] = {};
  std::size_t sizes[3] = {}, first[2] = {0, 1};
  std::string names;
  std::size_t const count = 1 + below(3);
  for (std::size_t i = 0; i < count; ++i) {
    block const* const found = some_block();
    if (found == nullptr || found->made != kind::managed || found->bytes > most_moved) return;
    part const taken = one_in(4) ? some_part(*found) : part{found->address, found->bytes};
    addresses[i] = taken.address;
    sizes[i] = taken.bytes;
    names += " " + found->name;
  }
  CUmemLocation where[2] = {{CU_MEM_LOCATION_TYPE_DEVICE, {some_device()}}, {CU_MEM_LOCATION_TYPE_HOST, {0}}};
  std::size_t const places = count > 1 ? 1 + below(2) : 1;
  queue const on = some_stream();
  switch (below(3)) {
    case 0:
      return void(said(cuMemPrefetchBatchAsync(addresses, sizes, count, where, first, places, 0, on.handle),
                       "cuMemPrefetchBatchAsync%s on %s", names.c_str(), on.name.c_str()));
    case 1:
      return void(said(cuMemDiscardBatchAsync(addresses, sizes, count, 0, on.handle),
                       "cuMemDiscardBatchAsync%s on %s", names.c_str(), on.name.c_str()));
    default:
      said(cuMemDiscardAndPrefetchBatchAsync(addresses, sizes, count, where, first, places, 0, on.handle),
           "cuMemDiscardAndPrefetchBatchAsync%s on %s", names.c_str(), on.name.c_str());
  }
}

void session::attach() {
  block const* const found = some_block();
  if (found == nullptr) return;
  queue const on = some_stream();
  std::size_t const bytes = one_in(2) ? 0 : one_in(2) ? found->bytes : found->bytes / 2;
  unsigned const flags = 1u << below(4);
  said(cuStreamAttachMemAsync(on.handle, found->address, bytes, flags),
       "cuStreamAttachMemAsync %s, %zu, %u on %s", found->name.c_str(), bytes, flags, on.name.c_str());
}

void session::page_locked() {
  block const* const found = some_block();
  if (found == nullptr) return;
  auto* const at = reinterpret_cast<char*>(found->address) + (one_in(2) ? 0 : found->bytes / 2);
  auto const offset = static_cast<std::size_t>(at - reinterpret_cast<char*>(found->address));
  switch (below(4)) {
    case 0:
      if (found->made != kind::pinned) return;
      return void(
          said(cuMemHostRegister(at, 1, below(2)), "cuMemHostRegister %s+%zu", found->name.c_str(), offset));
    case 1:
      return void(said(cuMemHostUnregister(at), "cuMemHostUnregister %s+%zu", found->name.c_str(), offset));
    case 2: {
      unsigned flags = 0x55;
      said(cuMemHostGetFlags(&flags, at), "cuMemHostGetFlags %s+%zu", found->name.c_str(), offset);
      return say("  %u", flags_told(*found, flags));
    }
    default: {
      CUdeviceptr device = 0;
      said(cuMemHostGetDevicePointer(&device, at, 0), "cuMemHostGetDevicePointer %s+%zu", found->name.c_str(),
           offset);
      say("  %s", where(device).c_str());
    }
  }
}

// Of devices: a driver of CUDA 13 has one of each kind of memory.
void session::kinds_of_pools() {
  CUmemLocation at{CU_MEM_LOCATION_TYPE_DEVICE, {some_device()}};
  bool const managed = one_in(2);
  CUmemoryPool pool = nullptr;
  if (said(cuMemGetDefaultMemPool(&pool, &at,
                                  managed ? CU_MEM_ALLOCATION_TYPE_MANAGED : CU_MEM_ALLOCATION_TYPE_PINNED),
           "cuMemGetDefaultMemPool %d, %s", at.id, managed ? "managed" : "pinned") != 0)
    return;
  CUmemLocation other{CU_MEM_LOCATION_TYPE_DEVICE, {some_device()}};
  CUmemAccess_flags flags{};
  said(cuMemPoolGetAccess(&flags, pool, &other), "cuMemPoolGetAccess from %d", other.id);
  say("  %u", static_cast<unsigned>(flags));
  if (!managed) return;
  queue const on = some_stream();
  CUdeviceptr address = 0;
  if (said(cuMemAllocFromPoolAsync(&address, 1000, pool, on.handle), "of managed memory, on %s",
           on.name.c_str()) != 0 ||
      capture_of(on.handle) != 0)
    return;
  unsigned is_managed = 0x55;
  said(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address), "is it managed");
  std::size_t bytes = 0;
  said(cuMemGetAddressRange(nullptr, &bytes, address + 7), "its range");
  say("  %u, %zu", is_managed, bytes);
  said(cuMemFreeAsync(address, on.handle), "its free");
}

}  // namespace transcript
