// See report_fields.hpp.
#include "shim/cli/recommend/report_fields.hpp"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "core/report/output/text_format.hpp"

namespace gpumem::cli {
namespace {

using report::document;
using report::field;

constexpr std::size_t most_devices = 64, most_holders = 64;
constexpr std::size_t longest_command = 200;  // that a line of advice has room for
constexpr std::uint64_t out_of_memory = 2;    // the driver's code

// By the first of these names that is there.
document const& any_field(document const& from, std::initializer_list<std::string_view> names) {
  for (std::string_view const name : names) {
    if (document const& found = field(from, name); !found.is_null()) return found;
  }
  return field(from, *names.begin());
}

std::optional<std::uint64_t> number(document const& from, std::initializer_list<std::string_view> names) {
  for (std::string_view const name : names) {
    if (auto const found = report::number(from, name)) return found;
  }
  return std::nullopt;
}

// "requested_bytes", or as it was called before.
std::optional<std::uint64_t> bytes(document const& from, std::string const& name) {
  return number(from, {name + "_bytes", name});
}

std::vector<holder> holders_of(document const& device) {
  std::vector<holder> found;
  for (auto const& library : field(device, "libraries")) {
    std::uint64_t const held = bytes(library, "at_highest").value_or(0);
    if (held != 0 && found.size() < most_holders) found.push_back({report::words(library, "path"), held});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](holder const& one, holder const& other) { return one.bytes > other.bytes; });
  return found;
}

void read_attempts(document const& counters, device_use& into) {
  auto const sum = [&counters](std::initializer_list<char const*> names) {
    std::optional<std::uint64_t> total;
    for (char const* name : names) {
      auto const found = report::number(counters, name);
      if (!found) continue;
      std::uint64_t so_far = total.value_or(0);
      add_to(so_far, *found);
      total = so_far;
    }
    return total;
  };
  into.at_once = sum({"rung_cached", "rung_same_stream", "rung_carved"});
  into.waited = sum({"rung_device_wait", "rung_waited", "rung_drained"});
  into.grown = sum({"rung_grown"});
  into.requests = report::number_or_zero(counters, "allocated_blocks");
  into.other_stream_frees = report::number_or_zero(counters, "cross_stream_frees");
  into.refusals = report::number_or_zero(counters, "out_of_memory");
}

device_use read_device(document const& from) {
  device_use one;
  one.number = number(from, {"device", "ordinal"}).value_or(0);
  one.name = report::words(from, "name");
  one.total = bytes(from, "total");
  one.observed = bytes(from, "highest_observed").value_or(0);
  one.holders = holders_of(from);
  for (holder const& each : one.holders) add_to(one.highest, each.bytes);
  one.requested = bytes(from, "highest_requested").value_or(0);
  one.highest = std::max({one.highest, one.observed, one.requested});
  one.reserved = bytes(field(from, "at_peak"), "reserved");
  read_attempts(field(from, "counters"), one);
  return one;
}

// Those for lack of memory; the largest of each device is kept.
void read_failures(document const& from, std::vector<device_use>& devices) {
  for (auto const& failure : field(from, "failures")) {
    if (report::number(failure, "error") != out_of_memory) continue;
    auto const device = report::number(failure, "device");
    auto const at = std::find_if(devices.begin(), devices.end(),
                                 [&device](device_use const& one) { return device == one.number; });
    std::string const by = report::words(failure, "refused_by");
    bool const of_host =
        report::words(failure, "api").find("Host") != std::string::npos || by == "host_memory";
    if (at == devices.end() || of_host) continue;
    // What chains handed out, and what else is known to have been held: no chain may have served.
    refusal const one{number(failure, {"requested_bytes", "bytes"}).value_or(0),
                      std::max(number(failure, {"handed_out_bytes", "in_use"}).value_or(0),
                               number(failure, {"held_bytes", "held"}).value_or(0)),
                      bytes(failure, "cached").value_or(0), bytes(failure, "largest_free").value_or(0), by};
    if (!at->refused || one.asked > at->refused->asked) at->refused = one;
    at->refusals = std::max<std::uint64_t>(at->refusals, 1);
  }
}

void read_sizes(document const& from, program_use& into) {
  for (auto const& bucket : field(from, "sizes")) {
    std::uint64_t const count = number(bucket, {"requests", "count"}).value_or(0);
    std::uint64_t const in_all = number(bucket, {"requested_bytes", "bytes"}).value_or(0);
    add_to(into.sized, count);
    add_to(into.bytes, in_all);
    auto const up_to = number(bucket, {"up_to_bytes", "le"});
    if (!up_to || *up_to > small_block) continue;
    add_to(into.small, count);
    add_to(into.small_bytes, in_all);
  }
}

std::vector<std::string> command_of(document const& from) {
  std::vector<std::string> command;
  std::size_t letters = 0;
  for (auto const& word : field(field(from, "process"), "argv")) {
    if (!word.is_string()) return {};
    command.push_back(word.get<std::string>());
    letters += command.back().size() + 1;
  }
  bool const whole = report::number_or_zero(field(from, "truncated"), "argv_bytes") == 0;
  return whole && letters <= longest_command ? command : std::vector<std::string>{};
}

}  // namespace

program_use use_of_report(document const& from) {
  program_use result;
  result.command = command_of(from);
  for (auto const& device : field(from, "devices")) {
    if (device.is_object() && result.devices.size() < most_devices)
      result.devices.push_back(read_device(device));
  }
  read_failures(from, result.devices);
  read_sizes(from, result);
  for (auto const& hook : any_field(field(from, "intercept"), {"hooks", "calls"})) {
    if (report::words(hook, "symbol").starts_with("cuIpcGetMemHandle")) result.exports = true;
  }
  return result;
}

}  // namespace gpumem::cli
