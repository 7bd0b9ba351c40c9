// What a ledger is to be compared with: the questions of simulated.h about memory, and the same answers in a
// file at the process's end (GPUMEM_SIMULATED_LEDGER names it; %p is the process). Any thread. These calls
// are not counted and do not move the clock.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "entry.hpp"

using namespace simulated;

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

struct kind_of_memory {
  char const* name;
  block_kind kind;
};
// In the order of simulated_memory.
constexpr kind_of_memory kinds[] = {{"plain", block_kind::device},    {"managed", block_kind::managed},
                                    {"pooled", block_kind::pooled},   {"array", block_kind::array},
                                    {"virtual", block_kind::mapping}, {"graph", block_kind::graph},
                                    {"pinned", block_kind::host}};
static_assert(std::size(kinds) == simulated_memory_kinds);

std::uint64_t held(machine& m, int device, int kind) {
  return kind == simulated_virtual ? physical_bytes(device) : m.memory_.held(device, kinds[kind].kind);
}

template <typename Ask>
unsigned long long ask(int device, Ask answer) {
  machine& m = machine::get();
  std::lock_guard const guard(m.lock_);
  return device >= 0 && device < m.device_count() ? answer(m) : 0;
}

std::string path_at_exit() {
  char const* const pattern = std::getenv("GPUMEM_SIMULATED_LEDGER");
  std::string path = pattern != nullptr ? pattern : "";
  if (std::size_t const at = path.find("%p"); at != path.npos) path.replace(at, 2, std::to_string(getpid()));
  return path;
}

// After the program and its libraries, whatever they did last. Whole or not at all: another thread that is in
// exit too may end the process meanwhile.
__attribute__((destructor)) void write_at_exit() {
  machine& m = machine::get();
  std::string const path = path_at_exit();
  if (path.empty() || m.forked() || m.device_count() == 0) return;
  std::string const unfinished = path + ".part";
  std::FILE* const file = std::fopen(unfinished.c_str(), "w");
  if (file == nullptr) return;
  for (int device = 0; device < m.device_count(); ++device) {
    std::fprintf(file,
                 "%s{\"ordinal\": %d, \"in_use\": %llu, \"live\": %llu, \"most_live\": %llu, "
                 "\"most_in_use\": %llu",
                 device == 0 ? "[" : ",\n", device, simulatedInUse(device), simulatedLive(device),
                 simulatedMostLive(device), simulatedMostInUse(device));
    for (int kind = 0; kind < simulated_memory_kinds; ++kind) {
      std::fprintf(file, ", \"%s\": %llu", kinds[kind].name, simulatedHeld(device, kind));
    }
    std::fprintf(file, "}");
  }
  std::fprintf(file, "]\n");
  std::fclose(file);
  std::rename(unfinished.c_str(), path.c_str());
}

}  // namespace

EXPORTED unsigned long long simulatedHeld(int device, int kind) {
  if (kind < 0 || kind >= simulated_memory_kinds) return 0;
  return ask(device, [=](machine& m) { return held(m, device, kind); });
}

EXPORTED unsigned long long simulatedInUse(int device) {
  return ask(device, [=](machine& m) {
    m.memory_.collect(m.now_, m.host_);
    return m.memory_.of(device).used();
  });
}

EXPORTED unsigned long long simulatedMostInUse(int device) {
  return ask(device, [=](machine& m) { return m.memory_.of(device).most_used(); });
}

EXPORTED unsigned long long simulatedLive(int device) {
  return ask(device, [=](machine& m) { return m.checker_.use_of(device).now; });
}

EXPORTED unsigned long long simulatedMostLive(int device) {
  return ask(device, [=](machine& m) { return m.checker_.use_of(device).most; });
}
