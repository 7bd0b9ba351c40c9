// See ledger_check.hpp.
#include "tests/integration/random/ledger_check.hpp"

#include <dirent.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>

#include "core/stats/snapshot.hpp"
#include "tests/integration/random/world.hpp"
#include "tests/simulated_cuda/simulated.h"

namespace random_program {

namespace {

using gpumem::stats::device_totals;
using gpumem::stats::snapshot;

std::string own_page() {
  char const* const folder = std::getenv("GPUMEM_STATE_DIR");
  DIR* const open = folder != nullptr ? opendir(folder) : nullptr;
  if (open == nullptr) return "";
  std::string const begin = std::to_string(getpid()) + "-";
  std::string found;
  while (dirent const* const entry = readdir(open)) {
    if (std::string(entry->d_name).starts_with(begin)) found = std::string(folder) + "/" + entry->d_name;
  }
  closedir(open);
  return found;
}

std::uint64_t given_out(snapshot const& page, int device, char const* type) {
  std::uint64_t bytes = 0;
  for (auto const& node : page.nodes) {
    if (node.device == device && node.route != "host" && node.type == type)
      bytes += node.counters.bytes_in - node.counters.bytes_out;
  }
  return bytes;
}

struct question {
  int device;
  char const* moment;

  void same(char const* what, std::uint64_t ours, std::uint64_t truth) const {
    if (ours == truth) return;
    fault("ledger, %s, device %d: %s is %llu, in truth %llu (%+lld)", moment, device, what,
          static_cast<unsigned long long>(ours), static_cast<unsigned long long>(truth),
          static_cast<long long>(ours - truth));
  }
};

// What a context of the device hears of its use is what the ledger takes down: only where it has one. The
// answer: what the driver knows of that moment.
std::optional<std::uint64_t> ask_in_use(int device) {
  unsigned flags = 0;
  int active = 0;
  CUcontext context = nullptr;
  if (cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active == 0) return std::nullopt;
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxPushCurrent(context));
  // Each call moves the clock, and with it goes what was freed on a stream: asked until nothing went
  // meanwhile.
  std::uint64_t before = 0, after = 0;
  do {
    before = simulatedInUse(device);
    std::size_t free_bytes = 0, total = 0;
    CHECK(cuMemGetInfo(&free_bytes, &total));
    after = simulatedInUse(device);
  } while (before != after);
  CHECK(cuCtxPopCurrent(&context));
  CHECK(cuDevicePrimaryCtxRelease(device));
  return after;
}

void compare(snapshot const& page, device_totals const& device, std::optional<std::uint64_t> in_use,
             char const* moment) {
  int const d = device.ordinal;
  question const is{d, moment};
  std::uint64_t driver_has = 0;
  for (int const kind :
       {simulated_plain, simulated_managed, simulated_pooled, simulated_array, simulated_virtual})
    driver_has += simulatedHeld(d, kind);
  std::uint64_t const of_host = given_out(page, d, "system");  // the driver knows nothing of it
  std::uint64_t const known = device.gauges.reserved + device.gauges.observed;
  is.same("reserved and seen", known, driver_has + of_host);
  is.same("requested and seen", device.now.requested + device.gauges.observed,
          simulatedLive(d) + simulatedHeld(d, simulated_array));
  if (!in_use) return;
  is.same("in use when asked", device.gauges.used, *in_use);
  is.same("known when asked", device.gauges.used_known, known);
  if (device.gauges.movable == 0) is.same("not seen", device.now.unseen.value_or(0), *in_use - driver_has);
}

}  // namespace

void check_ledger(int devices, char const* moment) {
  std::string const path = own_page();
  if (path.empty()) return;
  CHECK(cuInit(0));
  std::array<std::optional<std::uint64_t>, 64> in_use{};
  for (int d = 0; d < devices; ++d) in_use[static_cast<std::size_t>(d)] = ask_in_use(d);
  auto const read = gpumem::stats::read_snapshot(path);
  if (!read.error.empty()) return fault("ledger: %s", read.error.c_str());
  for (auto const& device : read.value.devices) {
    if (device.ordinal < devices)
      compare(read.value, device, in_use[static_cast<std::size_t>(device.ordinal)], moment);
  }
}

}  // namespace random_program
