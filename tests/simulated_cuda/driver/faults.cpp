// See faults.hpp.
#include "faults.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace simulated {

// Where in the library under test an address is; 0: elsewhere.
static std::uint64_t place_of(void const* address) {
  Dl_info where{};
  if (dladdr(address, &where) == 0 || where.dli_fname == nullptr) return 0;
  char const* const slash = std::strrchr(where.dli_fname, '/');
  char const* const name = slash != nullptr ? slash + 1 : where.dli_fname;
  if (std::strncmp(name, "libgpumem", 9) != 0) return 0;
  return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(where.dli_fbase);
}

faults& faults::get() {
  static faults& one = *new faults;  // calls come to the very end
  return one;
}

faults::plan faults::read(std::string const& text) {
  auto const first = text.find(':'), last = text.rfind(':');
  if (first == std::string::npos || first == last) {
    std::fprintf(stderr, "simulated-cuda: GPUMEM_SIMULATED_FAULT: %s: wanted FUNCTION[@PLACE]:N[+]:CODE\n",
                 text.c_str());
    std::abort();
  }
  plan read;
  std::string const whose = text.substr(0, first);
  auto const place = whose.find('@');
  read.function = whose.substr(0, place);
  if (place != std::string::npos) read.place = std::strtoull(whose.c_str() + place + 1, nullptr, 16);
  read.at = std::strtoull(text.c_str() + first + 1, nullptr, 10);
  read.on = text[last - 1] == '+';
  read.code = static_cast<CUresult>(std::atoi(text.c_str() + last + 1));
  return read;
}

faults::faults() {
  auto const value = [](char const* name) -> std::string {
    char const* const set = std::getenv(name);
    return set != nullptr ? set : "";
  };
  counts_file_ = value("GPUMEM_SIMULATED_FAULT_COUNTS");
  places_file_ = value("GPUMEM_SIMULATED_FAULT_PLACES");
  for (std::string rest = value("GPUMEM_SIMULATED_FAULT"); !rest.empty();) {
    auto const end = rest.find(',');
    plans_.push_back(read(rest.substr(0, end)));
    rest = end != std::string::npos ? rest.substr(end + 1) : "";
  }
  bool const counts = !counts_file_.empty() || !places_file_.empty();
  active_ = counts || !plans_.empty();
  if (counts) std::atexit([] { get().write(); });
  // A child of a thread that forks while another one counts would wait for ever.
  if (active_) {
    pthread_atfork([] { get().lock_.lock(); }, [] { get().lock_.unlock(); }, [] { get().lock_.unlock(); });
  }
}

void faults::write() const {
  std::map<std::string, std::uint64_t> of_functions;
  std::FILE* const places = !places_file_.empty() ? std::fopen(places_file_.c_str(), "w") : nullptr;
  for (auto const& [call, count] : calls_) {
    of_functions[call.first] += count;
    if (places == nullptr) continue;
    std::fprintf(places, "%s@%llx %llu\n", call.first.c_str(), static_cast<unsigned long long>(call.second),
                 static_cast<unsigned long long>(count));
  }
  if (places != nullptr) std::fclose(places);
  std::FILE* const counts = !counts_file_.empty() ? std::fopen(counts_file_.c_str(), "w") : nullptr;
  if (counts == nullptr) return;
  for (auto const& [function, count] : of_functions)
    std::fprintf(counts, "%s %llu\n", function.c_str(), static_cast<unsigned long long>(count));
  std::fclose(counts);
}

CUresult faults::count(char const* function, void const* returns_to) {
  std::uint64_t place = 0;
  {
    std::lock_guard const guard(lock_);
    if (auto const known = places_.find(returns_to); known != places_.end()) place = known->second;
  }
  // Not under the lock: a library that is being loaded may call, and who loads it holds the loader's.
  if (place == 0) place = place_of(returns_to);
  if (place == 0) return CUDA_SUCCESS;
  std::lock_guard const guard(lock_);
  places_.emplace(returns_to, place);  // the library stays where it is
  ++calls_[{function, place}];
  CUresult code = CUDA_SUCCESS;
  for (plan& each : plans_) {
    if (each.function != function || (each.place != 0 && each.place != place)) continue;
    std::uint64_t const now = ++each.calls;
    if (each.on ? now >= each.at : now == each.at) code = each.code;
  }
  return code;
}

}  // namespace simulated
