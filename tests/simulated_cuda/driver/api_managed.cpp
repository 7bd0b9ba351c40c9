// Managed memory: advice, prefetches, and what the driver says of a range; attachment to streams.
// Any thread.
// Nothing moves: only what was asked for is kept, page by page, until the memory is freed.
#include <algorithm>
#include <vector>

#include "entry.hpp"

using namespace simulated;

namespace {

// All of the range must be one managed allocation, to the byte (asked_rules managed_small), or memory of the
// host that devices reach.
CUresult in_managed(machine& m, CUdeviceptr address, std::uint64_t bytes) {
  block const* const found = m.memory_.find(address);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr) return m.pageable_ ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  bool const all = is_managed(*found) && address + bytes <= found->base + found->bytes;
  return all || m.pageable_ ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult device_of(machine const& m, CUmemLocation const& location, int& device) {
  device = location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
  bool const known =
      location.type == CU_MEM_LOCATION_TYPE_HOST ||
      (location.type == CU_MEM_LOCATION_TYPE_DEVICE && device >= 0 && device < m.device_count());
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult advise(machine& m, CUdeviceptr address, std::uint64_t bytes, CUmem_advise advice,
                CUmemLocation const& location) {
  SIMULATED_TRY(m.unsafe_call());  // measured
  SIMULATED_TRY(in_managed(m, address, bytes));
  // Measured: of read mostly and of a preferred location.
  if (location.type == CU_MEM_LOCATION_TYPE_INVALID) return CUDA_ERROR_INVALID_VALUE;
  if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
    return CUDA_ERROR_INVALID_VALUE;  // measured
  int device = CU_DEVICE_INVALID;
  bool const names_device = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                            advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                            advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  if (names_device) SIMULATED_TRY(device_of(m, location, device));
  m.memory_.advised.change(address, bytes, [&](range_state& state) {
    switch (advice) {
      case CU_MEM_ADVISE_SET_READ_MOSTLY:
      case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        state.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        break;
      case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        state.preferred = device;
        break;
      case CU_MEM_ADVISE_SET_ACCESSED_BY:
        state.accessed_by.insert(device);
        break;
      case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        state.accessed_by.erase(device);
        break;
    }
  });
  return CUDA_SUCCESS;
}

// What follows of captures, contexts and the legacy stream: measured, asked_rules managed_captured. No node
// of a graph, and the end of a capture, also of one that was invalidated before.
CUresult no_capture(stream const& on) {
  if (!on.capturing) return CUDA_SUCCESS;
  on.capturing->invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult move(machine& m, CUdeviceptr address, std::uint64_t bytes, int device, stream& on) {
  m.memory_.advised.change(address, bytes, [&](range_state& state) { state.prefetched = device; });
  return m.submit(on, {"prefetch", 1000, {}, {}, {}, false});
}

CUresult prefetch(machine& m, CUdeviceptr address, std::uint64_t bytes, CUmemLocation const& location,
                  CUstream on) {
  stream* where = nullptr;
  int device = CU_DEVICE_INVALID;
  SIMULATED_TRY(m.resolve(on, where));
  SIMULATED_TRY(no_capture(*where));
  SIMULATED_TRY(in_managed(m, address, bytes));
  CUresult const known = device_of(m, location, device);
  if (known != CUDA_SUCCESS && location.type == CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_DEVICE;
  SIMULATED_TRY(known);  // both measured
  return move(m, address, bytes, device, *where);
}

CUmemLocation location_of(CUdevice device) {
  if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, {0}};
  return {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
}

struct batch {
  CUdeviceptr const* addresses;
  std::size_t const* sizes;
  std::size_t count;
};

// The legacy stream takes no batch, whatever the context.
CUresult stream_of_batch(machine& m, CUstream on, stream*& where) {
  bool const is_null = on == nullptr && !this_thread().per_thread_default;
  if (is_null || on == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;
  SIMULATED_TRY(m.resolve(on, where));
  return no_capture(*where);
}

CUresult check(machine& m, batch const& b, unsigned long long flags) {
  if (b.addresses == nullptr || b.sizes == nullptr || b.count == 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < b.count; ++i) SIMULATED_TRY(in_managed(m, b.addresses[i], b.sizes[i]));
  return CUDA_SUCCESS;
}

struct places {
  CUmemLocation const* locations;
  std::size_t const* first;  // of the batch, for each place
  std::size_t count;
};

// Of memory in several pieces the last one is left out (H200, driver 580.159.04: of memory that had been cut
// into small pieces; two pieces are whole).
std::uint64_t reached(machine& m, CUdeviceptr address, std::uint64_t bytes) {
  std::vector<std::uint64_t> const begins = m.memory_.advised.begins(address, bytes);
  return begins.size() > 2 ? begins.back() - address : bytes;
}

CUresult prefetch(machine& m, batch const& b, places const& to, unsigned long long flags, CUstream on) {
  stream* where = nullptr;
  SIMULATED_TRY(stream_of_batch(m, on, where));
  SIMULATED_TRY(check(m, b, flags));
  if (to.locations == nullptr || to.first == nullptr || to.count == 0 || to.count > b.count ||
      to.first[0] != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0, place = 0; i < b.count; ++i) {
    while (place + 1 < to.count && to.first[place + 1] <= i) ++place;
    int device = CU_DEVICE_INVALID;
    SIMULATED_TRY(device_of(m, to.locations[place], device));
    SIMULATED_TRY(move(m, b.addresses[i], reached(m, b.addresses[i], b.sizes[i]), device, *where));
  }
  return CUDA_SUCCESS;
}

// One value for all pages, or CU_DEVICE_INVALID.
template <typename Of>
int common(machine& m, CUdeviceptr address, std::uint64_t bytes, Of const& of) {
  std::vector<int> seen;
  m.memory_.advised.each(address, bytes, [&](range_state const& state) { seen.push_back(of(state)); });
  bool const same = std::all_of(seen.begin(), seen.end(), [&](int value) { return value == seen.front(); });
  return !seen.empty() && same ? seen.front() : CU_DEVICE_INVALID;
}

int type_of(int device) {
  if (device == CU_DEVICE_INVALID) return CU_MEM_LOCATION_TYPE_INVALID;
  return device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
}

CUresult attribute_of(machine& m, void* data, std::size_t size, CUmem_range_attribute attribute,
                      CUdeviceptr address, std::size_t bytes) {
  if (data == nullptr || size == 0 || size % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (attribute != CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY && size != sizeof(int)) return CUDA_ERROR_INVALID_VALUE;
  SIMULATED_TRY(in_managed(m, address, bytes));
  int* const out = static_cast<int*>(data);
  int const preferred = common(m, address, bytes, [](range_state const& s) { return s.preferred; });
  int const prefetched = common(m, address, bytes, [](range_state const& s) { return s.prefetched; });
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      *out = common(m, address, bytes, [](range_state const& s) { return s.read_mostly ? 1 : 0; }) == 1;
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      *out = preferred;
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      *out = type_of(preferred);
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      *out = prefetched;
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      *out = type_of(prefetched);
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  std::size_t filled = 0;
  for (int at = 0; at <= m.device_count() && filled < size / sizeof(int); ++at) {
    int const device = at < m.device_count() ? at : static_cast<int>(CU_DEVICE_CPU);  // which comes last
    bool const all = common(m, address, bytes, [&](range_state const& s) {
                       return s.accessed_by.contains(device) ? 1 : 0;
                     }) == 1;
    if (all) out[filled++] = device;
  }
  std::fill(out + filled, out + size / sizeof(int), static_cast<int>(CU_DEVICE_INVALID));
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location) {
  SIMULATED_CALL(with_context);
  return advise(m, address, bytes, advice, location);
}

SIMULATED_API cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device) {
  SIMULATED_CALL(with_context);
  return advise(m, address, bytes, advice, location_of(device));
}

// The stream has its context, and needs no current one (measured).
SIMULATED_API cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags,
                                    CUstream on) {
  SIMULATED_CALL(after_init);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;  // measured
  return prefetch(m, address, bytes, location, on);
}
SIMULATED_PER_THREAD(cuMemPrefetchAsync_v2, _ptsz,
                     (CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags, CUstream on),
                     (address, bytes, location, flags, on))

SIMULATED_API cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream on) {
  SIMULATED_CALL(after_init);
  return prefetch(m, address, bytes, location_of(device), on);
}
SIMULATED_PER_THREAD(cuMemPrefetchAsync, _ptsz,
                     (CUdeviceptr address, size_t bytes, CUdevice device, CUstream on),
                     (address, bytes, device, on))

SIMULATED_API cuMemPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                      CUmemLocation* locations, size_t* first, size_t places,
                                      unsigned long long flags, CUstream on) {
  SIMULATED_CALL(after_init);
  return prefetch(m, batch{addresses, sizes, count}, {locations, first, places}, flags, on);
}
SIMULATED_PER_THREAD(cuMemPrefetchBatchAsync, _ptsz,
                     (CUdeviceptr * addresses, size_t* sizes, size_t count, CUmemLocation* locations,
                      size_t* first, size_t places, unsigned long long flags, CUstream on),
                     (addresses, sizes, count, locations, first, places, flags, on))

SIMULATED_API cuMemDiscardBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                     unsigned long long flags, CUstream on) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(stream_of_batch(m, on, where));
  SIMULATED_TRY(check(m, {addresses, sizes, count}, flags));
  return m.submit(*where, {"discard", 1000, {}, {}, {}, false});
}
SIMULATED_PER_THREAD(cuMemDiscardBatchAsync, _ptsz,
                     (CUdeviceptr * addresses, size_t* sizes, size_t count, unsigned long long flags,
                      CUstream on),
                     (addresses, sizes, count, flags, on))

SIMULATED_API cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                                CUmemLocation* locations, size_t* first, size_t places,
                                                unsigned long long flags, CUstream on) {
  SIMULATED_CALL(after_init);
  return prefetch(m, batch{addresses, sizes, count}, {locations, first, places}, flags, on);
}
SIMULATED_PER_THREAD(cuMemDiscardAndPrefetchBatchAsync, _ptsz,
                     (CUdeviceptr * addresses, size_t* sizes, size_t count, CUmemLocation* locations,
                      size_t* first, size_t places, unsigned long long flags, CUstream on),
                     (addresses, sizes, count, locations, first, places, flags, on))

// Where the last prefetch was to; nothing else moves here.
SIMULATED_API cuMemGetLocationInfo(CUdeviceptr address, size_t bytes, size_t summary, size_t sampling,
                                   CUmemLocation* out) {
  SIMULATED_CALL(with_context);
  SIMULATED_TRY(in_managed(m, address, bytes));
  if (out == nullptr || summary == 0 || summary > bytes || sampling > summary)
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t at = 0; at < bytes; at += summary, ++out) {
    int const device = common(m, address + at, std::min(summary, bytes - at),
                              [](range_state const& s) { return s.prefetched; });
    out->type = static_cast<CUmemLocationType>(type_of(device));
    out->id = std::max(device, 0);
  }
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemRangeGetAttribute(void* data, size_t size, CUmem_range_attribute attribute,
                                     CUdeviceptr address, size_t bytes) {
  SIMULATED_CALL(with_context);
  return attribute_of(m, data, size, attribute, address, bytes);
}

SIMULATED_API cuMemRangeGetAttributes(void** data, size_t* sizes, CUmem_range_attribute* attributes,
                                      size_t count, CUdeviceptr address, size_t bytes) {
  SIMULATED_CALL(with_context);
  if (data == nullptr || sizes == nullptr || attributes == nullptr || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i)
    SIMULATED_TRY(attribute_of(m, data[i], sizes[i], attributes[i], address, bytes));
  return CUDA_SUCCESS;
}

SIMULATED_API cuStreamAttachMemAsync(CUstream on, CUdeviceptr address, size_t bytes, unsigned flags) {
  SIMULATED_CALL(after_init);
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  SIMULATED_TRY(m.unsafe_call());  // before the block (measured)
  SIMULATED_TRY(no_capture(*where));
  block const* const found = m.memory_.at(address);
  if (found == nullptr || !is_managed(*found)) return CUDA_ERROR_INVALID_VALUE;
  if (bytes != 0 && bytes != found->bytes) return CUDA_ERROR_INVALID_VALUE;
  bool const is_null = on == nullptr && !this_thread().per_thread_default;
  if (flags == CU_MEM_ATTACH_SINGLE && is_null)
    return CUDA_ERROR_INVALID_VALUE;  // CU_STREAM_LEGACY may (measured)
  // Measured: asked_rules managed, attach_3, attach_8. Without flags a driver crashes (580.159, attach_0).
  bool const known =
      flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE;
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  return m.submit(*where, {"attach", 1000, {}, {}, {}, false});
}
SIMULATED_PER_THREAD(cuStreamAttachMemAsync, _ptsz,
                     (CUstream on, CUdeviceptr address, size_t bytes, unsigned flags),
                     (on, address, bytes, flags))
