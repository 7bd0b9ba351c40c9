// The virtual memory of the scripted driver: ranges of addresses, pieces of whole pages, maps. As strict as
// the real one: a map needs a free place in a range, an unmap takes whole maps, a range goes only when it is
// empty.
#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "tests/unit/fake_driver/fake_driver.hpp"

namespace gpumem::tests {

namespace {

fake_driver& fake() {
  return fake_driver::instance();
}
void* at(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

CUresult attribute(int* value, CUdevice_attribute which, CUdevice) {
  std::lock_guard lock(fake().mutex);
  auto const known = fake().attributes.find(which);
  *value = known != fake().attributes.end() ? known->second : 1;
  return CUDA_SUCCESS;
}
CUresult granularity(size_t* bytes, CUmemAllocationProp const*, CUmemAllocationGranularity_flags) {
  *bytes = fake_driver::page;
  return fake().enter("cuMemGetAllocationGranularity");
}
CUresult address_reserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  if (CUresult const code = fake().enter("cuMemAddressReserve"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(fake().mutex);
  std::uint64_t const page = fake_driver::page;
  if (bytes == 0 || bytes % page != 0) return CUDA_ERROR_INVALID_VALUE;
  void* const raw =
      mmap(nullptr, bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  auto const begin = reinterpret_cast<std::uint64_t>(raw);
  std::uint64_t const base = (begin + page - 1) / page * page;
  if (base > begin) munmap(raw, base - begin);
  munmap(at(base + bytes), begin + page - base);
  fake().ranges[base] = bytes;
  *address = base;
  return CUDA_SUCCESS;
}
CUresult address_free(CUdeviceptr address, size_t bytes) {
  if (CUresult const code = fake().enter("cuMemAddressFree"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(fake().mutex);
  auto const found = fake().ranges.find(address);
  if (found == fake().ranges.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  auto const left = fake().mapped.lower_bound(address);
  if (left != fake().mapped.end() && left->first < address + bytes) return CUDA_ERROR_INVALID_VALUE;
  munmap(at(address), bytes);
  fake().ranges.erase(found);
  return CUDA_SUCCESS;
}
CUresult create(CUmemGenericAllocationHandle* made, size_t bytes, CUmemAllocationProp const*,
                unsigned long long) {
  if (CUresult const code = fake().unsafe("cuMemCreate"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(fake().mutex);
  if (bytes == 0 || bytes % fake_driver::page != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > fake().capacity || fake().in_use > fake().capacity - bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  fake().in_use += bytes;
  *made = ++fake().next_handle;
  fake().physicals[*made] = {bytes, 1};
  return CUDA_SUCCESS;
}
// Under the lock.
void drop(CUmemGenericAllocationHandle which) {
  auto const found = fake().physicals.find(which);
  if (--found->second.references > 0) return;
  fake().in_use -= found->second.bytes;
  fake().physicals.erase(found);
}
CUresult release_handle(CUmemGenericAllocationHandle which) {
  if (CUresult const code = fake().unsafe("cuMemRelease"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(fake().mutex);
  if (!fake().physicals.contains(which)) return CUDA_ERROR_INVALID_VALUE;
  drop(which);
  return CUDA_SUCCESS;
}
// Under the lock. Bytes of the map that begins here, or 0.
std::uint64_t bytes_at(CUdeviceptr address) {
  auto const found = fake().mapped.find(address);
  return found != fake().mapped.end() ? fake().physicals.at(found->second).bytes : 0;
}
// Under the lock. Whole maps, one behind the other, and nothing else.
bool whole_maps(CUdeviceptr address, size_t bytes) {
  std::uint64_t covered = 0;
  while (covered < bytes) {
    std::uint64_t const next = bytes_at(address + covered);
    if (next == 0) return false;
    covered += next;
  }
  return covered == bytes;
}
CUresult map(CUdeviceptr address, size_t bytes, size_t, CUmemGenericAllocationHandle which,
             unsigned long long) {
  if (CUresult const code = fake().unsafe("cuMemMap"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(fake().mutex);
  auto range = fake().ranges.upper_bound(address);
  if (range == fake().ranges.begin()) return CUDA_ERROR_INVALID_VALUE;
  --range;
  auto const physical = fake().physicals.find(which);
  auto const next = fake().mapped.lower_bound(address);
  bool free = next == fake().mapped.end() || next->first >= address + bytes;
  if (next != fake().mapped.begin()) {
    auto const before = std::prev(next)->first;
    free = free && before + bytes_at(before) <= address;
  }
  bool const fits = physical != fake().physicals.end() && physical->second.bytes == bytes &&
                    address % fake_driver::page == 0 && address + bytes <= range->first + range->second &&
                    free;
  if (!fits) return CUDA_ERROR_INVALID_VALUE;
  ++physical->second.references;
  fake().mapped[address] = which;
  return CUDA_SUCCESS;
}
CUresult unmap(CUdeviceptr address, size_t bytes) {
  if (CUresult const code = fake().unsafe("cuMemUnmap"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(fake().mutex);
  if (!whole_maps(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  auto const end = fake().mapped.lower_bound(address + bytes);
  for (auto it = fake().mapped.lower_bound(address); it != end; it = fake().mapped.erase(it))
    drop(it->second);
  mprotect(at(address), bytes, PROT_NONE);
  madvise(at(address), bytes, MADV_DONTNEED);
  return CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr address, size_t bytes, CUmemAccessDesc const*, size_t count) {
  if (CUresult const code = fake().unsafe("cuMemSetAccess"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(fake().mutex);
  if (!whole_maps(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return count > 0 && mprotect(at(address), bytes, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS
                                                                                : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

void fake_driver::install_pages() {
  for (auto const& [address, bytes] : ranges) munmap(at(address), bytes);
  ranges.clear();
  physicals.clear();
  mapped.clear();
  attributes.clear();
  driver::table& real = driver::real;
  real.cuDeviceGetAttribute = attribute;
  real.cuMemGetAllocationGranularity = granularity;
  real.cuMemAddressReserve = address_reserve;
  real.cuMemAddressFree = address_free;
  real.cuMemCreate = create;
  real.cuMemRelease = release_handle;
  real.cuMemMap = map;
  real.cuMemUnmap = unmap;
  real.cuMemSetAccess = set_access;
}

std::size_t fake_driver::pages_mapped() {
  std::lock_guard lock(mutex);
  std::size_t bytes = 0;
  for (auto const& [address, which] : mapped) bytes += physicals.at(which).bytes;
  return bytes / page;
}

}  // namespace gpumem::tests
