// See faults.hpp.
#include "faults.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace simulated {

static bool is_under_test(void const* address) {
  Dl_info where{};
  if (dladdr(address, &where) == 0 || where.dli_fname == nullptr) return false;
  char const* const slash = std::strrchr(where.dli_fname, '/');
  char const* const name = slash != nullptr ? slash + 1 : where.dli_fname;
  return std::strncmp(name, "libgpumem", 9) == 0;
}

faults& faults::get() {
  static faults& one = *new faults;  // calls come to the very end
  return one;
}

faults::faults() {
  if (char const* const file = std::getenv("GPUMEM_SIMULATED_FAULT_COUNTS"); file != nullptr) file_ = file;
  if (char const* const text = std::getenv("GPUMEM_SIMULATED_FAULT"); text != nullptr) {
    std::string const plan = text;
    auto const first = plan.find(':'), last = plan.rfind(':');
    if (first == std::string::npos || first == last) {
      std::fprintf(stderr, "simulated-cuda: GPUMEM_SIMULATED_FAULT=%s: wanted FUNCTION:N:CODE\n", text);
      std::abort();
    }
    function_ = plan.substr(0, first);
    at_ = std::strtoull(plan.c_str() + first + 1, nullptr, 10);
    on_ = plan[last - 1] == '+';
    code_ = static_cast<CUresult>(std::atoi(plan.c_str() + last + 1));
  }
  active_ = !file_.empty() || !function_.empty();
  if (!file_.empty()) std::atexit([] { get().write(); });
}

void faults::write() const {
  std::FILE* const out = std::fopen(file_.c_str(), "w");
  if (out == nullptr) return;
  for (auto const& [function, count] : counts_) std::fprintf(out, "%s %llu\n", function.c_str(), count);
  std::fclose(out);
}

CUresult faults::count(char const* function, void const* returns_to) {
  if (!is_under_test(returns_to)) return CUDA_SUCCESS;
  std::lock_guard const guard(lock_);
  unsigned long long const now = ++counts_[function];
  bool const fails = function_ == function && (on_ ? now >= at_ : now == at_);
  return fails ? code_ : CUDA_SUCCESS;
}

}  // namespace simulated
