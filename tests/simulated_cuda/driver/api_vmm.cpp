// Virtual memory management: physical allocations, address ranges, maps and access.
// Any thread.
// Each physical allocation has a memory file of its own, so that its descriptor can go to another process.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "entry.hpp"

using namespace simulated;

namespace {

struct physical {
  int file = -1;
  std::uint64_t bytes = 0;
  CUmemAllocationProp properties = {};
  bool counted = false;     // device memory of this process
  unsigned references = 1;  // handles and maps
};

struct mapping {
  physical* of = nullptr;
  std::uint64_t bytes = 0;
};

struct tables {
  std::unordered_set<physical*> physicals;
  std::map<std::uint64_t, std::uint64_t> reserved;
  std::map<std::uint64_t, mapping> mapped;
};
tables& all() {
  static auto* const one = new tables;
  return *one;
}

CUmemGenericAllocationHandle handle(physical* of) {
  return reinterpret_cast<CUmemGenericAllocationHandle>(of);
}

physical* find(CUmemGenericAllocationHandle which) {
  auto* const found = reinterpret_cast<physical*>(which);
  return all().physicals.count(found) != 0 ? found : nullptr;
}

void drop(machine& m, physical* of) {
  if (--of->references != 0) return;
  close(of->file);
  if (of->counted) m.memory_.of(of->properties.location.id).uncharge(of->bytes);
  all().physicals.erase(of);
  delete of;
}

// Where the reserved range ends that holds the address; 0: none does.
std::uint64_t end_of_reservation(std::uint64_t address) {
  auto const after = all().reserved.upper_bound(address);
  if (after == all().reserved.begin()) return 0;
  auto const& [base, bytes] = *std::prev(after);
  return address < base + bytes ? base + bytes : 0;
}

void* address_of(std::uint64_t number) {
  return reinterpret_cast<void*>(number);
}

}  // namespace

std::uint64_t simulated::physical_bytes(int device) {
  std::uint64_t bytes = 0;
  for (physical const* each : all().physicals) {
    if (each->counted && each->properties.location.id == device) bytes += each->bytes;
  }
  return bytes;
}

SIMULATED_API cuMemGetAllocationGranularity(size_t* out, CUmemAllocationProp const* wanted,
                                            CUmemAllocationGranularity_flags) {
  SIMULATED_CALL(after_init);
  if (out == nullptr || wanted == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = driver_block;
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes, CUmemAllocationProp const* wanted,
                          unsigned long long flags) {
  SIMULATED_CALL(after_init);
  if (out == nullptr || wanted == nullptr || flags != 0 || bytes == 0 || bytes % driver_block != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Measured, as the other refusals here: asked_rules virtual, simulated_answers.py.
  if (wanted->location.type == CU_MEM_LOCATION_TYPE_INVALID) return CUDA_ERROR_INVALID_VALUE;
  bool const on_device = wanted->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  int const device = wanted->location.id;
  if (on_device && (device < 0 || device >= m.device_count())) return CUDA_ERROR_INVALID_DEVICE;
  if (wanted->type == CU_MEM_ALLOCATION_TYPE_INVALID) return CUDA_ERROR_INVALID_VALUE;
  if (on_device && !m.takes(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  int const file = memfd_create("simulated-physical", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    if (file >= 0) close(file);
    if (on_device) m.memory_.of(device).uncharge(bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto* made = new physical{file, bytes, *wanted, on_device, 1};
  all().physicals.insert(made);
  *out = handle(made);
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemRelease(CUmemGenericAllocationHandle which) {
  SIMULATED_CALL(after_init);
  physical* const found = find(which);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  drop(m, found);
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  SIMULATED_CALL(after_init);
  auto const number = reinterpret_cast<std::uint64_t>(address);
  auto it = all().mapped.upper_bound(number);
  if (out == nullptr || it == all().mapped.begin()) return CUDA_ERROR_INVALID_VALUE;
  --it;
  if (number >= it->first + it->second.bytes) return CUDA_ERROR_INVALID_VALUE;
  ++it->second.of->references;
  *out = handle(it->second.of);
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                     CUmemGenericAllocationHandle which) {
  SIMULATED_CALL(after_init);
  physical const* const found = find(which);
  if (out == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = found->properties;
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle which,
                                           CUmemAllocationHandleType type, unsigned long long flags) {
  SIMULATED_CALL(after_init);
  physical const* const found = find(which);
  if (out == nullptr || found == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if ((found->properties.requestedHandleTypes & type) == 0) return CUDA_ERROR_INVALID_VALUE;  // measured
  int const file = fcntl(found->file, F_DUPFD_CLOEXEC, 0);
  if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(out) = file;
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* shared,
                                             CUmemAllocationHandleType type) {
  SIMULATED_CALL(after_init);
  if (out == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  struct stat about = {};
  int const file = fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(shared)), F_DUPFD_CLOEXEC, 0);
  if (file < 0 || fstat(file, &about) != 0) return CUDA_ERROR_INVALID_VALUE;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = type;
  auto* made = new physical{file, static_cast<std::uint64_t>(about.st_size), properties, false, 1};
  all().physicals.insert(made);
  *out = handle(made);
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr,
                                  unsigned long long flags) {
  SIMULATED_CALL(after_init);
  if (out == nullptr || bytes == 0 || bytes % driver_block != 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (alignment != 0 && (alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t const align = std::max<std::uint64_t>(alignment, driver_block);
  void* const raw =
      mmap(nullptr, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  auto const number = reinterpret_cast<std::uint64_t>(raw);
  std::uint64_t const base = (number + align - 1) / align * align;
  if (base > number) munmap(raw, base - number);
  munmap(address_of(base + bytes), number + align - base);
  all().reserved[base] = bytes;
  *out = base;
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  SIMULATED_CALL(after_init);
  auto const it = all().reserved.find(address);
  if (it == all().reserved.end() || it->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  auto const map = all().mapped.lower_bound(address);
  if (map != all().mapped.end() && map->first < address + bytes) return CUDA_ERROR_INVALID_VALUE;
  munmap(address_of(address), bytes);
  all().reserved.erase(it);
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle which,
                       unsigned long long flags) {
  SIMULATED_CALL(after_init);
  physical* const found = find(which);
  if (found == nullptr || flags != 0 || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (offset != 0 || bytes != found->bytes) return CUDA_ERROR_NOT_SUPPORTED;  // measured
  std::uint64_t const reserved_to = end_of_reservation(address);
  if (reserved_to == 0 || address + bytes > reserved_to) return CUDA_ERROR_INVALID_VALUE;
  if (m.memory_.find(address, true) != nullptr || m.memory_.find(address + bytes - 1, true) != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  space& device = m.memory_.of(found->properties.location.id);
  if (found->counted && !m.takes(found->properties.location.id, m.mapping_bytes_))
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (mmap(address_of(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, found->file, 0) ==
      MAP_FAILED) {
    if (found->counted) device.uncharge(m.mapping_bytes_);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++found->references;
  all().mapped[address] = {found, bytes};
  block made;
  made.kind = block_kind::mapping;
  made.base = made.segment = address;
  made.bytes = made.span = made.segment_bytes = bytes;
  made.device = found->properties.location.id;
  m.memory_.insert(made);
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemUnmap(CUdeviceptr address, size_t bytes) {
  SIMULATED_CALL(after_init);
  // Each whole mapping of the range, which begins in a reservation; where nothing is mapped is no error
  // (measured: virtual_memory unmaps, told_of_addresses).
  if (end_of_reservation(address) == 0) return CUDA_ERROR_INVALID_VALUE;
  auto const cuts = [](std::uint64_t at) {
    auto const after = all().mapped.upper_bound(at);
    if (after == all().mapped.begin()) return false;
    auto const& [base, piece] = *std::prev(after);
    return base < at && at < base + piece.bytes;
  };
  if (bytes == 0 || cuts(address) || cuts(address + bytes)) return CUDA_ERROR_INVALID_VALUE;
  // It waits for nothing (measured); effects still due must not meet an empty range.
  if (!m.checker_.unmapped(address, bytes)) m.run_all();
  while (true) {
    auto const it = all().mapped.lower_bound(address);
    if (it == all().mapped.end() || it->first >= address + bytes) break;
    mmap(address_of(it->first), it->second.bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    m.memory_.erase(it->first);
    if (physical const& of = *it->second.of; of.counted)
      m.memory_.of(of.properties.location.id).uncharge(m.mapping_bytes_);
    drop(m, it->second.of);
    all().mapped.erase(it);
  }
  return CUDA_SUCCESS;
}

// The range is one mapping, or some that lie side by side (measured: asked_rules virtual, virtual_beyond).
static bool is_whole(machine& m, CUdeviceptr address, std::size_t bytes) {
  CUdeviceptr at = address;
  while (at < address + bytes) {
    block const* const one = m.memory_.at(at);
    if (one == nullptr || one->kind != block_kind::mapping) return false;
    at += one->span;
  }
  return at == address + bytes && bytes != 0;
}

// The host plays all devices: what another one than the memory's may do is known to the checker alone.
static void set_access(block& of, CUmemAccessDesc const& wish) {
  int const device = wish.location.id;
  if (device == of.device) {
    of.access = wish.flags;
    int const rights = wish.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                       : wish.flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                        : PROT_NONE;
    mprotect(address_of(of.base), of.span, rights);
    return;
  }
  std::uint32_t const bit = std::uint32_t{1} << device;
  of.open_to = wish.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE ? of.open_to | bit : of.open_to & ~bit;
}

SIMULATED_API cuMemSetAccess(CUdeviceptr address, size_t bytes, CUmemAccessDesc const* access, size_t count) {
  SIMULATED_CALL(after_init);
  if (access == nullptr || count == 0 || !is_whole(m, address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    CUmemLocation const& where = access[i].location;
    bool const is_device = where.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (is_device && (where.id < 0 || where.id >= m.device_count()))
      return CUDA_ERROR_INVALID_VALUE;  // measured
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) continue;
    for (CUdeviceptr at = address; at < address + bytes; at += m.memory_.at(at)->span)
      set_access(*m.memory_.at(at), access[i]);
  }
  return CUDA_SUCCESS;
}

SIMULATED_API cuMemGetAccess(unsigned long long* flags, CUmemLocation const* location, CUdeviceptr address) {
  SIMULATED_CALL(after_init);
  if (flags == nullptr || location == nullptr || address == 0) return CUDA_ERROR_INVALID_VALUE;
  bool const is_device = location->type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (is_device && (location->id < 0 || location->id >= m.device_count())) return CUDA_ERROR_INVALID_DEVICE;
  // The order of these, and that only mappings have flags, was measured (told_of_addresses access).
  *flags = 0;
  block const* const found = m.memory_.find(address);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found->kind != block_kind::mapping) return CUDA_SUCCESS;
  bool const is_anothers = is_device && location->id != found->device;
  bool const is_open = is_anothers && (found->open_to >> location->id & 1) != 0;
  *flags = is_open ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  if (!is_anothers) *flags = static_cast<unsigned>(found->access);
  return CUDA_SUCCESS;
}
