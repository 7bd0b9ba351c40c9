// See demangle.hpp.
#include "core/report/names/demangle.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace gpumem::report {

std::string demangled(std::string const& symbol) {
  if (!symbol.starts_with("_Z")) return symbol;
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> const text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return text == nullptr ? symbol : text.get();
}

}  // namespace gpumem::report
