// The library as the tool that NVTX tells of ranges. NVTX asks NVTX_INJECTION64_PATH, and nothing else, at
// the first NVTX call of each library that has a copy of it: the variable has to be there by then. `gpumem
// run --phases` puts it into the environment, GPUMEM_PHASES=1 when the process starts, [report] phases alone
// at the first CUDA call. Where it names another tool it stays, and that tool's start goes through us
// (lookup.cpp). Nothing is done where no phases are asked for; in a process where the library is not
// preloaded NVTX goes without a tool.
#include <sys/mman.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "config/reader/environment.hpp"
#include "core/base/environment.hpp"
#include "core/base/files/loaded_object.hpp"
#include "shim/phases/nvtx_ranges.hpp"
#include "shim/process/process.hpp"
#include "shim/process/settings.hpp"
#include "shim/process/wanted_phases.hpp"
#include "shim/symbols/lookup.hpp"

extern "C" [[gnu::visibility("default")]] int InitializeInjectionNvtx2(gpumem::shim::nvtx::export_table from);

namespace gpumem::shim {
namespace {

constexpr std::string_view variable = "NVTX_INJECTION64_PATH=";

constinit std::atomic<nvtx::initializer> tool_behind_us{nullptr};

// Both hear of the ranges of this copy of NVTX.
int initialize_both(nvtx::export_table from) {
  nvtx::functions_of functions(from);
  nvtx::initializer const tool = tool_behind_us.load(std::memory_order_acquire);
  bool const works = tool != nullptr && tool(from) != 0;
  if (!works) functions.restore();
  return functions.attach(works) || works ? 1 : 0;
}

// One tool: a second one's start stays its own.
void* exchange(void* found) noexcept {
  auto const theirs = reinterpret_cast<nvtx::initializer>(found);
  if (theirs == &InitializeInjectionNvtx2) return found;
  nvtx::initializer known = nullptr;
  bool const first = tool_behind_us.compare_exchange_strong(known, theirs, std::memory_order_acq_rel);
  return first || known == theirs ? reinterpret_cast<void*>(&initialize_both) : found;
}

struct path_text {
  char text[PATH_MAX] = {};
};

bool find_own_path(path_text& path) noexcept {
  base::loaded_object self;
  auto const take = [](std::string_view found, void* taker) {
    auto& to = static_cast<path_text*>(taker)->text;
    if (found.size() < sizeof to) std::memcpy(to, found.data(), found.size());
  };
  path_text found;
  if (!base::find_loaded_object(reinterpret_cast<std::uintptr_t>(&find_own_path), self, take, &found))
    return false;
  return ::realpath(found.text, path.text) != nullptr;
}

// Not by setenv: where the program has changed its environment before, that frees the list that another
// thread may be reading. A new list takes the old one's place, unless that was exchanged meanwhile.
void add_to_environment(char const* path) noexcept {
  char** const before = environ;
  std::size_t count = 0;
  while (before != nullptr && before[count] != nullptr) ++count;
  std::size_t const list = (count + 2) * sizeof(char*), text = variable.size() + std::strlen(path) + 1;
  void* const made = ::mmap(nullptr, list + text, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return;
  auto** const entries = static_cast<char**>(made);
  char* const item = static_cast<char*>(made) + list;
  std::memcpy(item, variable.data(), variable.size());
  std::memcpy(item + variable.size(), path, text - variable.size());
  std::size_t at = 0;
  entries[at++] = item;
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::string_view(before[i]).starts_with(variable)) entries[at++] = before[i];
  }
  char** expected = before;
  std::atomic_ref<char**>(environ).compare_exchange_strong(expected, entries, std::memory_order_acq_rel);
}

bool names_a_tool() noexcept {
  for (char** item = environ; item != nullptr && *item != nullptr; ++item) {
    std::string_view const entry(*item);
    if (entry.starts_with(variable)) return entry.size() > variable.size();
  }
  return false;
}

// After the constructors that NVTX could be used by at the earliest: those of libraries come before ours.
[[gnu::constructor(104)]] void look_at_environment() {
  if (!config::asks_for_phases(environ) || config::is_disabled(environ) || settings::is_secure()) return;
  ask_for_ranges();
}

}  // namespace

void ask_for_ranges() noexcept {
  if (!is_preloaded()) return;
  exchange_injection.store(&exchange, std::memory_order_release);
  path_text own;
  if (!names_a_tool() && find_own_path(own)) add_to_environment(own.text);
}

}  // namespace gpumem::shim

// Called by a copy of NVTX whose variable names this library.
int InitializeInjectionNvtx2(gpumem::shim::nvtx::export_table from) {
  using namespace gpumem::shim;
  if (!is_preloaded() || gpumem::config::is_disabled(gpumem::base::user_environment()) ||
      settings::is_secure())
    return 0;
  if (process::state.load(std::memory_order_relaxed) == process::life::off) return 0;
  return nvtx::functions_of(from).attach(false) ? 1 : 0;
}
