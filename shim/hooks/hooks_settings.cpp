// Hooks of what a program sets on memory (pointer attributes, advice, prefetches, attachment), and of the
// question what holds of a range. Called by the program on any thread. The driver answers; what it accepted
// for memory of a block is remembered, so that it ends with the block.
#include <algorithm>

#include "core/driver/managed_memory.hpp"
#include "core/driver/nobodys.hpp"
#include "core/route/settings.hpp"
#include "shim/hooks/dispatch.hpp"

using namespace gpumem;
using namespace gpumem::shim;

namespace {

CUdevice device_of(CUmemLocation const& location) noexcept {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
}

// `range`: of one allocation natively, to the byte (asked_rules managed_small), hence of one block.
struct range {
  CUdeviceptr address;
  std::uint64_t bytes;
};

// `real`: the driver's function, for any range.
template <typename Real, typename Note>
CUresult about_range(hook which, range const& r, Real&& real, Note&& note) noexcept {
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real(r.address, r.bytes);
  if (route::leaves_block(r.address, r.bytes))
    return counted(which, 0, driver::refusal(real(driver::nobodys, 1)));
  CUresult const code = real(r.address, r.bytes);
  if (code == CUDA_SUCCESS) note();
  return counted(which, 0, code);
}

template <typename Real>
CUresult advise(hook which, range const& r, CUmem_advise what, CUdevice device, Real&& real) noexcept {
  return about_range(which, r, real, [&] { route::block_advised(r.address, what, device); });
}

template <typename Real>
CUresult prefetch(hook which, range const& r, Real&& real) noexcept {
  return about_range(which, r, real, [&] { route::block_prefetched(r.address); });
}

struct batch {
  CUdeviceptr* addresses;
  size_t* sizes;
  size_t count;
  CUmemLocation const* locations = nullptr;
  size_t const* first = nullptr;  // of each location: the first range that goes there
  size_t places = 0;
};

bool leaves_blocks(batch const& b) noexcept {
  for (size_t i = 0; b.addresses != nullptr && b.sizes != nullptr && i < b.count; ++i) {
    if (route::leaves_block(b.addresses[i], b.sizes[i])) return true;
  }
  return false;
}

// `real`: the driver's function, for so many ranges.
template <typename Real>
CUresult refuse_batch(Real&& real) noexcept {
  CUdeviceptr address = driver::nobodys;
  size_t bytes = 1;
  return driver::refusal(real(&address, &bytes, 1));
}

template <typename Real>
CUresult discard(hook which, CUdeviceptr* addresses, size_t* sizes, size_t count, Real&& real) noexcept {
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real(addresses, sizes, count);
  bool const leaves = leaves_blocks({.addresses = addresses, .sizes = sizes, .count = count});
  return counted(which, 0, leaves ? refuse_batch(real) : real(addresses, sizes, count));
}

template <typename Real>
CUresult prefetch(hook which, batch const& b, CUstream stream, Real&& real) noexcept {
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real(b.addresses, b.sizes, b.count);
  if (leaves_blocks(b)) return counted(which, 0, refuse_batch(real));
  CUresult const code = real(b.addresses, b.sizes, b.count);
  for (size_t i = 0, place = 0; code == CUDA_SUCCESS && i < b.count; ++i) {
    while (place + 1 < b.places && b.first[place + 1] <= i) ++place;
    route::block_prefetched(b.addresses[i], b.sizes[i], b.locations[place], stream);
  }
  return counted(which, 0, code);
}

// What the driver remembers of a prefetch is of an earlier owner, and cannot be taken back.
void adjust(CUmem_range_attribute attribute, void* value, bool never) noexcept {
  if (!never) return;
  if (attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION ||
      attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID)
    *static_cast<int*>(value) = CU_DEVICE_INVALID;
  if (attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE)
    *static_cast<int*>(value) = CU_MEM_LOCATION_TYPE_INVALID;
}

template <typename Real>
CUresult attach(hook which, route::attachment const& wanted, Real&& real) noexcept {
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real();
  if (is_default(wanted.stream) && current_context() == nullptr) return counted(which, 0, real());
  auto const outcome = route::attach(wanted);
  return counted(which, 0, outcome.served() ? outcome.code : real());
}

}  // namespace

extern "C" {

CUresult cuPointerSetAttribute(void const* value, CUpointer_attribute attribute, CUdeviceptr address) {
  auto const real = [&] { return GPUMEM_REAL(cuPointerSetAttribute)(value, attribute, address); };
  base::uncancelled const held;
  hook_scope const scope;
  if (!scope) return real();
  route::outcome outcome = route::pass;
  if (attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && value != nullptr)
    outcome = route::set_sync_memops(address, *static_cast<unsigned const*>(value) != 0);
  if (!outcome.served() && route::is_idle(address))  // freed: natively nobody's
    return counted(hook::cuPointerSetAttribute, 0, CUDA_ERROR_INVALID_VALUE);
  return counted(hook::cuPointerSetAttribute, 0, outcome.served() ? outcome.code : real());
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise what, CUdevice device) {
  return advise(hook::cuMemAdvise, {address, bytes}, what, device,
                [&](CUdeviceptr of, size_t n) { return GPUMEM_REAL(cuMemAdvise)(of, n, what, device); });
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise what, CUmemLocation location) {
  return advise(hook::cuMemAdvise_v2, {address, bytes}, what, device_of(location),
                [&](CUdeviceptr of, size_t n) { return GPUMEM_REAL(cuMemAdvise_v2)(of, n, what, location); });
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream) {
  return prefetch(hook::cuMemPrefetchAsync, range{address, bytes}, [&](CUdeviceptr of, size_t n) {
    return GPUMEM_REAL(cuMemPrefetchAsync)(of, n, device, stream);
  });
}

CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream) {
  return prefetch(hook::cuMemPrefetchAsync_ptsz, range{address, bytes}, [&](CUdeviceptr of, size_t n) {
    return GPUMEM_REAL(cuMemPrefetchAsync_ptsz)(of, n, device, stream);
  });
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned int flags,
                               CUstream stream) {
  return prefetch(hook::cuMemPrefetchAsync_v2, range{address, bytes}, [&](CUdeviceptr of, size_t n) {
    return GPUMEM_REAL(cuMemPrefetchAsync_v2)(of, n, location, flags, stream);
  });
}

CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr address, size_t bytes, CUmemLocation location,
                                    unsigned int flags, CUstream stream) {
  return prefetch(hook::cuMemPrefetchAsync_v2_ptsz, range{address, bytes}, [&](CUdeviceptr of, size_t n) {
    return GPUMEM_REAL(cuMemPrefetchAsync_v2_ptsz)(of, n, location, flags, stream);
  });
}

#define GPUMEM_PREFETCH_BATCH(name, per_thread_default)                                                \
  CUresult name(CUdeviceptr* addresses, size_t* sizes, size_t count, CUmemLocation* locations,         \
                size_t* first, size_t places, unsigned long long flags, CUstream stream) {             \
    return prefetch(hook::name, batch{addresses, sizes, count, locations, first, places},              \
                    named_stream(stream, per_thread_default),                                          \
                    [&](CUdeviceptr* of, size_t* bytes, size_t n) {                                    \
                      return GPUMEM_REAL(name)(of, bytes, n, locations, first, places, flags, stream); \
                    });                                                                                \
  }
GPUMEM_PREFETCH_BATCH(cuMemPrefetchBatchAsync, false)
GPUMEM_PREFETCH_BATCH(cuMemPrefetchBatchAsync_ptsz, true)
GPUMEM_PREFETCH_BATCH(cuMemDiscardAndPrefetchBatchAsync, false)
GPUMEM_PREFETCH_BATCH(cuMemDiscardAndPrefetchBatchAsync_ptsz, true)
#undef GPUMEM_PREFETCH_BATCH

#define GPUMEM_DISCARD_BATCH(name)                                                                      \
  CUresult name(CUdeviceptr* addresses, size_t* sizes, size_t count, unsigned long long flags,          \
                CUstream stream) {                                                                      \
    return discard(hook::name, addresses, sizes, count, [&](CUdeviceptr* of, size_t* bytes, size_t n) { \
      return GPUMEM_REAL(name)(of, bytes, n, flags, stream);                                            \
    });                                                                                                 \
  }
GPUMEM_DISCARD_BATCH(cuMemDiscardBatchAsync)
GPUMEM_DISCARD_BATCH(cuMemDiscardBatchAsync_ptsz)
#undef GPUMEM_DISCARD_BATCH

CUresult cuMemRangeGetAttribute(void* value, size_t size, CUmem_range_attribute attribute,
                                CUdeviceptr address, size_t bytes) {
  return about_range(
      hook::cuMemRangeGetAttribute, {address, bytes},
      [&](CUdeviceptr of, size_t n) {
        return GPUMEM_REAL(cuMemRangeGetAttribute)(value, size, attribute, of, n);
      },
      [&] { adjust(attribute, value, route::never_prefetched(address)); });
}

CUresult cuMemRangeGetAttributes(void** values, size_t* sizes, CUmem_range_attribute* attributes,
                                 size_t count, CUdeviceptr address, size_t bytes) {
  return about_range(
      hook::cuMemRangeGetAttributes, {address, bytes},
      [&](CUdeviceptr of, size_t n) {
        return GPUMEM_REAL(cuMemRangeGetAttributes)(values, sizes, attributes, count, of, n);
      },
      [&] {
        bool const never = route::never_prefetched(address);
        for (size_t i = 0; i < count; ++i) adjust(attributes[i], values[i], never);
      });
}

// Since 13.4: where the pages of a range lie.
CUresult cuMemGetLocationInfo(CUdeviceptr address, size_t bytes, size_t summary, size_t sampling,
                              CUmemLocation* locations) {
  return about_range(
      hook::cuMemGetLocationInfo, {address, bytes},
      [&](CUdeviceptr of, size_t n) {
        return GPUMEM_REAL(cuMemGetLocationInfo)(of, n, summary, sampling, locations);
      },
      [] {});
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes, unsigned int flags) {
  return attach(hook::cuStreamAttachMemAsync, {address, bytes, flags, stream},
                [&] { return GPUMEM_REAL(cuStreamAttachMemAsync)(stream, address, bytes, flags); });
}

CUresult cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr address, size_t bytes, unsigned int flags) {
  return attach(hook::cuStreamAttachMemAsync_ptsz, {address, bytes, flags, named_stream(stream, true)},
                [&] { return GPUMEM_REAL(cuStreamAttachMemAsync_ptsz)(stream, address, bytes, flags); });
}
}
