// See findings.hpp.
#include "core/report/findings.hpp"

#include <algorithm>

#include "core/base/text/bytes.hpp"
#include "core/report/coverage.hpp"
#include "core/report/document.hpp"
#include "core/report/names/symbol_names.hpp"
#include "core/report/put.hpp"

namespace gpumem::report {
namespace {

std::string bytes_text(std::uint64_t bytes) {
  return std::string(base::print_bytes(bytes).view());
}

std::string counted(std::uint64_t count, std::string const& noun) {
  return std::string(base::print_count(count).view()) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

document find_what_stands_out(stats::snapshot const& from, std::string const& end) {
  bool const killed = end == "signal" || end == "unknown";
  document found = document::array();
  auto const add = [&found](char const* level, std::string text, char const* see) {
    found.push_back({{"level", level}, {"text", std::move(text)}});
    put(found.back(), "see", std::string(see));
  };

  std::uint64_t refused = 0, blocks = 0, bytes = 0;
  for (auto const& device : from.devices) {
    refused += device.counters.out_of_memory;
    blocks += device.live_blocks();
    bytes += device.now.requested;
  }
  refused = std::max(refused, from.failures_total);
  if (refused != 0) {
    std::string text = counted(refused, "allocation") + " failed";
    if (!from.failures.empty()) text += ", the first asked for " + bytes_text(from.failures.front().bytes);
    add("!!", text, "FAILURES");
  }
  if (from.misuses_total != 0) {
    add("!!", counted(from.misuses_total, "misuse") + " of memory by the program", "MISUSE");
  }
  if (from.unbuilt_total != 0) {
    add("!!",
        counted(from.unbuilt_total, "chain") +
            " could not be built, the driver served instead: " + from.unbuilt,
        "gpumem check");
  }
  if (!from.recording_stopped.empty()) {
    add("!!",
        from.recording_path.empty() ? "nothing was recorded: " + from.recording_stopped
                                    : "the recording ends before the process: " + from.recording_stopped,
        "");
  }
  bool const tracked = std::any_of(from.nodes.begin(), from.nodes.end(),
                                   [](auto const& node) { return node.type == "tracking"; });
  if (blocks != 0 && end != "running") {
    add("!!",
        counted(blocks, "block") + ", " + bytes_text(bytes) + (blocks == 1 ? ", was" : ", were") +
            " still allocated at " + (killed ? "the end" : "exit"),
        tracked ? "LEAKS" : "DEVICE");
  }
  if (killed && from.shards_in_memory != 0) {
    add("!!",
        "the counters of " + counted(from.shards_in_memory, "thread") +
            " are missing: no disk space was left",
        "");
  }
  if (!from.passed_by.empty()) {
    add("!!", "CUDA was called past gpumem, and not counted, by " + from.passed_by, "DEVICE");
  }
  std::uint64_t spilled = 0, most = 0;
  for (auto const& node : from.nodes) {
    if (node.counters.most == 0) continue;
    spilled += node.counters.hits;
    most = std::max(most, node.counters.most);
  }
  if (spilled != 0) {
    add("!", counted(spilled, "allocation") + " spilled, at most " + bytes_text(most) + " at a time",
        "CHAIN");
  }
  for (auto const& hook : from.hooks) {
    bool const takes = describe_symbol(hook.symbol, hook.route).kind == call_kind::allocate;
    if (hook.route != "observed" || !takes || hook.counters.bytes == 0) continue;
    std::uint64_t const took = hook.counters.calls - std::min(hook.counters.failed, hook.counters.calls);
    add("!",
        counted(took, hook.symbol + " call") + ", " + bytes_text(hook.counters.bytes) +
            (took == 1 ? ", was" : ", were") + " not routed",
        "CALLS");
  }
  for (auto const& device : from.devices) {
    std::uint64_t const grown = unseen_since(device).value_or(0);
    if (grown < unseen_growth_that_stands_out || may_be_rounding(grown, device)) continue;
    add("!",
        bytes_text(grown) + " came into use on device " + std::to_string(device.ordinal) +
            " without a call that was seen",
        "CALLS");
  }
  if (from.config_warnings != 0) {
    add("!", counted(from.config_warnings, "warning") + " about the configuration", "gpumem check");
  }
  for (auto const& device : from.devices) {
    if (device.highest_ordinal <= device.ordinal) continue;
    std::string const all = std::to_string(device.ordinal) + " to " + std::to_string(device.highest_ordinal);
    add("!",
        "devices " + all + " are counted together, as device " + std::to_string(device.ordinal) +
            ", and share its limits",
        "");
  }
  if (from.nodes_shared && !from.nodes.empty()) {
    auto const& last = from.nodes.back();
    add("!",
        "more parts of chains than rows: the figures of \"" + last.name + "\" of device " +
            std::to_string(last.device) + " are also those of later parts",
        "CHAIN");
  }
  if (from.shards_shared) {
    add("!",
        "more than " + std::to_string(stats::max_shards - 1) + " threads at once: some counts may be too low",
        "");
  }
  return found;
}

}  // namespace gpumem::report
