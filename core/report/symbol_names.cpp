// See symbol_names.hpp.
#include "core/report/symbol_names.hpp"

namespace gpumem::report {
namespace {

struct known_symbol {
  std::string_view driver;
  symbol_name means;
};

constexpr known_symbol known[] = {
    {"cuMemAlloc", {"cudaMalloc", call_kind::allocate}},
    {"cuMemAllocAsync", {"cudaMallocAsync", call_kind::allocate}},
    {"cuMemAllocFromPoolAsync", {"cudaMallocFromPoolAsync", call_kind::allocate}},
    {"cuMemAllocHost", {"cudaMallocHost", call_kind::allocate}},
    {"cuMemAllocManaged", {"cudaMallocManaged", call_kind::allocate}},
    {"cuMemAllocPitch", {"cudaMallocPitch", call_kind::allocate}},
    {"cuMemHostAlloc", {"cudaHostAlloc", call_kind::allocate}},
    {"cuMemHostRegister", {"cudaHostRegister", call_kind::allocate}},
    {"cuMemHostUnregister", {"cudaHostUnregister", call_kind::free}},
    {"cuMemFree", {"cudaFree", call_kind::free}},
    {"cuMemFreeAsync", {"cudaFreeAsync", call_kind::free}},
    {"cuMemFreeHost", {"cudaFreeHost", call_kind::free}},
    {"cuMemCreate", {"virtual memory", call_kind::allocate}},
    {"cuMemRelease", {"virtual memory", call_kind::free}},
    {"cuArrayCreate", {"cudaMallocArray", call_kind::allocate}},
    {"cuArray3DCreate", {"cudaMalloc3DArray", call_kind::allocate}},
    {"cuArrayDestroy", {"cudaFreeArray", call_kind::free}},
    {"cuMipmappedArrayCreate", {"cudaMallocMipmappedArray", call_kind::allocate}},
    {"cuMipmappedArrayDestroy", {"cudaFreeMipmappedArray", call_kind::free}},
};

}  // namespace

symbol_name describe_symbol(std::string_view symbol, std::string_view route) noexcept {
  symbol_name result;
  if (route == "runtime") return result;  // the driver call below it is counted as well: once is enough
  for (std::string_view suffix : {"_ptsz", "_v2", "_v3"}) {
    if (symbol.ends_with(suffix)) symbol.remove_suffix(suffix.size());
  }
  for (auto const& entry : known) {
    if (symbol == entry.driver) result = entry.means;
  }
  if (result.kind == call_kind::other && route != "observed") {
    result.kind = route == "free" ? call_kind::free : call_kind::allocate;
  }
  return result;
}

}  // namespace gpumem::report
