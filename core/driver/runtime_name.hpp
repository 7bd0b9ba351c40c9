// Driver function -> the runtime call by which people know it: cuMemAlloc_v2 -> cudaMalloc. Constant data;
// used by rules, which may name either, and by the report.
#pragma once

#include <string_view>

namespace gpumem::driver {

// "cuMemAllocAsync_ptsz" -> "cuMemAllocAsync"
constexpr std::string_view plain_name(std::string_view symbol) noexcept {
  for (std::string_view suffix : {"_ptsz", "_v2", "_v3"}) {
    if (symbol.ends_with(suffix)) symbol.remove_suffix(suffix.size());
  }
  return symbol;
}

// "cuMemAlloc_v2" -> "cudaMalloc"; "" where there is none.
constexpr std::string_view runtime_name(std::string_view symbol) noexcept {
  struct pair {
    std::string_view driver, runtime;
  };
  constexpr pair known[] = {
      {"cuMemAlloc", "cudaMalloc"},
      {"cuMemAllocAsync", "cudaMallocAsync"},
      {"cuMemAllocFromPoolAsync", "cudaMallocFromPoolAsync"},
      {"cuMemAllocHost", "cudaMallocHost"},
      {"cuMemAllocManaged", "cudaMallocManaged"},
      {"cuMemAllocPitch", "cudaMallocPitch"},
      {"cuMemHostAlloc", "cudaHostAlloc"},
      {"cuMemHostRegister", "cudaHostRegister"},
      {"cuMemHostUnregister", "cudaHostUnregister"},
      {"cuMemFree", "cudaFree"},
      {"cuMemFreeAsync", "cudaFreeAsync"},
      {"cuMemFreeHost", "cudaFreeHost"},
      {"cuArrayCreate", "cudaMallocArray"},
      {"cuArray3DCreate", "cudaMalloc3DArray"},
      {"cuArrayDestroy", "cudaFreeArray"},
      {"cuMipmappedArrayCreate", "cudaMallocMipmappedArray"},
      {"cuMipmappedArrayDestroy", "cudaFreeMipmappedArray"},
  };
  symbol = plain_name(symbol);
  for (auto const& entry : known) {
    if (symbol == entry.driver) return entry.runtime;
  }
  return {};
}

}  // namespace gpumem::driver
