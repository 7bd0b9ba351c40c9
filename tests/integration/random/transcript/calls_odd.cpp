// See session.hpp. Here: calls whose arguments no program should give, or seldom does: pools of no kind,
// their attributes and access, advice and prefetches beyond a block, maps of a part, events without a result,
// a graph that is made ready twice, registrations that overlap.
#include <cstdlib>

#include "tests/integration/random/transcript/session.hpp"

namespace transcript {

void session::odd_pool() {
  static int const handle_types[] = {0, 0, 0, 1, 0x40};
  CUmemPoolProps properties{};
  properties.allocType = static_cast<CUmemAllocationType>(below(2));
  properties.location = {static_cast<CUmemLocationType>(below(2)), {some_device()}};
  properties.handleTypes = static_cast<CUmemAllocationHandleType>(handle_types[below(5)]);
  CUmemoryPool made = nullptr;
  said(cuMemPoolCreate(&made, &properties), "cuMemPoolCreate of %d, place %d %d, handles %d",
       static_cast<int>(properties.allocType), static_cast<int>(properties.location.type),
       properties.location.id, static_cast<int>(properties.handleTypes));
  if (made != nullptr) said(cuMemPoolDestroy(made), "cuMemPoolDestroy");
}

void session::odd_pool_attribute() {
  std::string name;
  CUmemoryPool const of = some_pool(name);
  auto const which = static_cast<CUmemPool_attribute>(below(11));
  unsigned long long value = below(3) * 7;
  // What a release threshold, or a highest use, is set to others set as well.
  if (which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) value = 0;
  said(cuMemPoolSetAttribute(of, which, &value), "attribute %d of %s to %llu", static_cast<int>(which),
       name.c_str(), value);
  value = 0;
  if (which > CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) return;
  said(cuMemPoolGetAttribute(of, which, &value), "attribute %d of %s", static_cast<int>(which), name.c_str());
  say("  %llu", value);
}

void session::odd_pool_access() {
  static int const flags[] = {0, 1, 3};
  std::string name;
  CUmemoryPool const of = some_pool(name);
  CUmemAccessDesc access{{static_cast<CUmemLocationType>(below(3)), {some_device()}},
                         static_cast<CUmemAccess_flags>(flags[below(3)])};
  std::size_t const count = one_in(4) ? 0 : 1;
  if (said(cuMemPoolSetAccess(of, &access, count), "cuMemPoolSetAccess %s, place %d %d, %d, %zu",
           name.c_str(), static_cast<int>(access.location.type), access.location.id,
           static_cast<int>(access.flags), count) == CUDA_SUCCESS)
    other_devices_.insert(name);
}

void session::odd_range() {
  static std::size_t const more[] = {0, 0, 1, 4096, std::size_t{2} << 20};
  block const* const found = some_block();
  if (found == nullptr || found->made != kind::managed || found->bytes > most_moved) return;
  CUmemLocation const at{static_cast<CUmemLocationType>(below(3)), {some_device()}};
  std::size_t const bytes = one_in(8) ? 0 : found->bytes + more[below(5)];
  queue const on = some_stream();
  if (one_in(2)) {
    auto const advice = static_cast<CUmem_advise>(below(9));
    said(cuMemAdvise(found->address, bytes, advice, at), "cuMemAdvise %s, %zu, %d, place %d %d",
         found->name.c_str(), bytes, static_cast<int>(advice), static_cast<int>(at.type), at.id);
  } else {
    unsigned const flags = one_in(4) ? 1 : 0;
    said(cuMemPrefetchAsync(found->address, bytes, at, flags, on.handle),
         "cuMemPrefetchAsync %s, %zu, place %d %d, %u on %s", found->name.c_str(), bytes,
         static_cast<int>(at.type), at.id, flags, on.name.c_str());
  }
}

void session::odd_mapping() {
  constexpr std::size_t step = std::size_t{2} << 20;
  CUmemAllocationProp properties{};
  properties.type = static_cast<CUmemAllocationType>(one_in(5) ? 0 : 1);
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {some_device()}};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr at = 0;
  unsigned long long flags = 0x55;
  said(cuMemCreate(&handle, 2 * step, &properties, 0), "cuMemCreate of %d",
       static_cast<int>(properties.type));
  said(cuMemAddressReserve(&at, 4 * step, 0, 0, 0), "cuMemAddressReserve");
  if (handle != 0 && at != 0) {
    std::size_t const from = below(3) * step, bytes = (1 + below(2)) * step, offset = below(2) * step;
    said(cuMemMap(at + from, bytes, offset, handle, 0), "cuMemMap %zu of %zu at %zu", bytes, offset, from);
    CUmemAccessDesc const access{properties.location, one_in(3)   ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                      : one_in(2) ? CU_MEM_ACCESS_FLAGS_PROT_NONE
                                                                  : CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    std::size_t const where = below(3) * step, many = (1 + below(2)) * step;
    said(cuMemSetAccess(at + where, many, &access, 1), "cuMemSetAccess %zu at %zu, %d", many, where,
         static_cast<int>(access.flags));
    said(cuMemGetAccess(&flags, &properties.location, at + from), "cuMemGetAccess");
    say("  %llu", flags);
    said(cuMemUnmap(at, 4 * step), "cuMemUnmap");
  }
  if (handle != 0) said(cuMemRelease(handle), "cuMemRelease");
  if (at != 0) said(cuMemAddressFree(at, 4 * step), "cuMemAddressFree");
}

void session::odd_event() {
  std::string first, second;
  CUevent const a = some_event(first), b = some_event(second);
  if (a == nullptr || b == nullptr) return;
  if (one_in(2)) {
    float time = 0;
    said(timeless(cuEventElapsedTime(one_in(3) ? nullptr : &time, a, b)), "cuEventElapsedTime %s, %s",
         first.c_str(), second.c_str());
  } else {
    queue const on = some_stream();
    unsigned const flags = below(3);
    if (said(cuEventRecordWithFlags(a, on.handle, flags), "cuEventRecordWithFlags %s on %s, %u",
             first.c_str(), on.name.c_str(), flags) == CUDA_SUCCESS)
      event_recorded(a, capture_of(on.handle));
  }
}

void session::odd_graph() {
  if (graphs_.empty()) return;
  recorded const& found = graphs_[below(static_cast<unsigned>(graphs_.size()))];
  if (found.ready == nullptr) return;
  CUgraphExec second = nullptr;
  said(cuGraphInstantiateWithFlags(&second, found.graph, 0), "cuGraphInstantiateWithFlags %s again",
       found.name.c_str());
  if (second != nullptr) said(cuGraphExecDestroy(second), "cuGraphExecDestroy");
}

void session::odd_registration() {
  constexpr std::size_t page = 4096;
  static char* const pages = static_cast<char*>(std::aligned_alloc(page, 4 * page));
  unsigned const flags = one_in(4) ? 0x80 : below(4);
  std::size_t const from = below(3) * page, bytes = (1 + below(2)) * page;
  said(cuMemHostRegister(pages + page, page, 0), "cuMemHostRegister");
  bool const second = said(cuMemHostRegister(pages + from, bytes, flags), "cuMemHostRegister %zu at %zu, %u",
                           bytes, from, flags) == CUDA_SUCCESS;
  unsigned told = 0x55;
  said(cuMemHostGetFlags(&told, pages + page), "cuMemHostGetFlags");
  say("  %u", told);
  std::size_t const at = below(3) * page / 2;
  said(cuMemHostUnregister(pages + page + at), "cuMemHostUnregister at %zu", at);
  if (second) said(cuMemHostUnregister(pages + from), "cuMemHostUnregister");
  said(cuMemHostUnregister(pages + page), "cuMemHostUnregister");
}

}  // namespace transcript
