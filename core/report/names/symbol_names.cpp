// See symbol_names.hpp.
#include "core/report/names/symbol_names.hpp"

#include <algorithm>
#include <iterator>

#include "core/driver/runtime_name.hpp"

namespace gpumem::report {
namespace {

constexpr std::string_view frees[] = {"cuMemHostUnregister",    "cuMemFree",    "cuMemFreeAsync",
                                      "cuMemFreeHost",          "cuMemRelease", "cuArrayDestroy",
                                      "cuMipmappedArrayDestroy"};

}  // namespace

symbol_name describe_symbol(std::string_view symbol, std::string_view route) noexcept {
  symbol_name result;
  if (route == "runtime") return result;  // the driver call below it is counted as well: once is enough
  symbol = driver::plain_name(symbol);
  bool const virtual_memory = symbol == "cuMemCreate" || symbol == "cuMemRelease";
  result.runtime = virtual_memory ? "virtual memory" : driver::runtime_name(symbol);
  if (!result.runtime.empty()) {
    bool const free = std::find(std::begin(frees), std::end(frees), symbol) != std::end(frees);
    result.kind = free ? call_kind::free : call_kind::allocate;
  }
  if (result.kind == call_kind::other && route != "observed") {
    result.kind = route == "free" ? call_kind::free : call_kind::allocate;
  }
  return result;
}

}  // namespace gpumem::report
