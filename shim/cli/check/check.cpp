// See check.hpp.
#include "shim/cli/check/check.hpp"

#include <unistd.h>

#include <algorithm>

#include "config/text/size_text.hpp"
#include "core/base/log/line_writer.hpp"
#include "core/base/log/log.hpp"
#include "core/base/text/bytes.hpp"
#include "core/base/text/printable.hpp"
#include "shim/cli/check/chain_tree.hpp"
#include "shim/cli/check/start_memory.hpp"
#include "shim/cli/check/traps.hpp"
#include "shim/cli/output.hpp"
#include "shim/cli/recommend/recommend.hpp"
#include "shim/cli/wrapped.hpp"

namespace gpumem::cli {
namespace {

std::string shown(std::uint64_t bytes) {
  return std::string(base::print_bytes(bytes).view());
}

std::string start_text(config::plan const& plan, device const& on) {
  start_memory const taken = memory_at_start(plan, on);
  std::string parts;
  auto const add = [&parts](std::string const& part) { parts += (parts.empty() ? "" : ", ") + part; };
  if (taken.device != 0) add(shown(taken.device) + " of device memory");
  if (taken.managed != 0) add(shown(taken.managed) + " of managed memory");
  if (taken.host != 0) add(shown(taken.host) + " of pinned host memory");
  if (taken.unknown) add("a share of the device");
  if (parts.empty()) return "at start  nothing: chains grow as they are used\n";
  std::string const origin = taken.text.empty() ? "" : " (" + taken.text + ")";
  std::string const indent(10, ' ');
  return "at start  " + wrapped(parts + origin + ", in each context at its first request", indent) + "\n";
}

std::string shown(trap const& found) {
  return "!  " + wrapped(found.what, "   ") + "\n   " + wrapped(found.remedy, "   ") + "\n";
}

struct view {
  std::string heading;
  std::string text;
};

// One for each device that differs from the others, in what it has or in what is set for it.
std::vector<view> views_of(config::plan const& plan, std::vector<device> const& devices, bool& has_traps) {
  std::vector<device> all = devices;
  if (all.empty()) all.push_back({});
  if (all.front().number < 0) {
    for (auto const& [number, overrides] : plan.devices) all.push_back({number, "", all.front().total});
  }
  std::vector<view> views;
  std::vector<std::pair<device, std::vector<int>>> same;
  for (auto const& on : all) {
    std::string text = chain_tree(plan, on) + start_text(plan, on);
    auto const traps = find_traps(plan, on);
    has_traps = has_traps || !traps.empty();
    for (auto const& trap : traps) text += shown(trap);
    bool joined = false;
    for (std::size_t i = 0; i < views.size(); ++i) {
      auto& [first, numbers] = same[i];
      if (views[i].text != base::printable_lines(text) || first.name != on.name || first.total != on.total)
        continue;
      if (first.number < 0) {  // nothing on this device differs from any other
        joined = true;
        break;
      }
      numbers.push_back(on.number);
      joined = true;
      break;
    }
    if (joined) continue;
    views.push_back({"", base::printable_lines(text)});
    same.push_back({on, {on.number}});
  }
  for (std::size_t i = 0; i < views.size(); ++i) {
    auto const& [on, numbers] = same[i];
    std::string heading = on.number < 0 ? "any device" : numbers.size() == 1 ? "device " : "devices ";
    for (int number : numbers) {
      if (number >= 0) heading += (number == numbers.front() ? "" : ", ") + std::to_string(number);
    }
    if (!on.name.empty()) heading += ": " + on.name;
    if (on.total != 0) heading += ", " + shown(on.total);
    views[i].heading = heading;
  }
  return views;
}

// With what names each.
std::vector<std::pair<int, std::string>> devices_named_in(config::plan const& plan) {
  std::vector<std::pair<int, std::string>> found;
  for (auto const& [number, overrides] : plan.devices)
    found.emplace_back(number, "[device." + std::to_string(number) + "]");
  for (std::size_t i = 0; i < plan.rules.size(); ++i) {
    if (plan.rules[i].device < 0) continue;
    found.emplace_back(plan.rules[i].device, "rule " + std::to_string(i + 1));
  }
  for (auto const& [name, resource] : plan.resources) {
    auto const to = resource.type == "prefetch" ? resource.options.find("device") : resource.options.end();
    auto const* const number =
        to == resource.options.end() ? nullptr : std::get_if<std::int64_t>(&to->second);
    if (number != nullptr && *number >= 0) found.emplace_back(static_cast<int>(*number), "\"" + name + "\"");
  }
  return found;
}

}  // namespace

std::string describe_program(std::string const& name, interception const& seen) {
  std::string const indent(10, ' ');
  std::string text = "program   " + base::printable(name);
  text += seen.path.empty() || seen.path == name ? "\n" : " is " + base::printable(seen.path) + "\n";
  for (auto const& fact : seen.facts) text += indent + wrapped(base::printable(fact), indent) + "\n";
  for (auto const& problem : seen.problems) text += "!  " + wrapped(base::printable(problem), "   ") + "\n";
  return text + indent +
         (seen.result == verdict::yes  ? "can be intercepted\n"
          : seen.result == verdict::no ? "cannot be intercepted\n"
                                       : "can be intercepted if it uses CUDA\n");
}

std::string describe_plan(config::plan const& plan, std::vector<device> const& devices, bool& has_traps) {
  auto const views = views_of(plan, devices, has_traps);
  std::string text;
  for (auto const& one : views) {
    bool const plain = views.size() == 1 && one.heading == "any device";
    text += (text.empty() ? "" : "\n") + (plain ? "" : one.heading + "\n") + one.text;
  }
  for (auto const& [number, what] : devices_named_in(plan)) {
    bool const here =
        devices.empty() || std::any_of(devices.begin(), devices.end(), [number = number](device const& on) {
          return on.number < 0 || on.number == number;
        });
    if (here) continue;
    has_traps = true;
    text +=
        shown({what + " is for a device that is not here",
               "devices are numbered as CUDA_VISIBLE_DEVICES leaves them: use a number that is shown above"});
  }
  return text;
}

int check(check_options const& options) {
  std::uint64_t assumed = 0;
  if (!options.device_memory.empty()) {
    auto const size = config::read_size(options.device_memory, false);
    if (!size.value || size.value->bytes == 0) {
      base::log_line(base::log_level::error, "--device-memory " + options.device_memory + ": " +
                                                 (size.problem.empty() ? "is nothing" : size.problem));
      return 2;
    }
    assumed = size.value->bytes;
  }
  if (!options.recommend.empty()) return recommend(options.recommend, assumed);
  std::vector<device> devices;
  if (assumed == 0) devices = list_devices();
  if (assumed != 0) devices.push_back({-1, "", assumed});
  config::load_result const loaded = options.file.empty() ? config::load(config::read_environment(::environ))
                                                          : config::load_input(options.file);
  base::write_all(STDERR_FILENO, loaded.text(config::consequence::none));
  if (loaded.failed()) return 2;
  std::string const name =
      loaded.plan.path.empty() ? "built-in configuration" : base::printable(loaded.plan.path);
  bool has_traps = false;
  std::string const described = describe_plan(loaded.plan, devices, has_traps);
  if (!print(name + (loaded.diagnostics.empty() ? ": good\n" : ": good, with warnings\n") + described))
    return exit_not_written;
  if (!options.command.empty()) {
    interception const seen = inspect(options.command.front(), of_this_process());
    if (!print(describe_program(options.command.front(), seen))) return exit_not_written;
    if (seen.result == verdict::no) return 2;
  }
  return options.strict && (has_traps || !loaded.diagnostics.empty()) ? 1 : 0;
}

}  // namespace gpumem::cli
