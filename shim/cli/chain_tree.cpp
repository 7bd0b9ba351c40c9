// See chain_tree.hpp.
#include "shim/cli/chain_tree.hpp"

#include <fmt/format.h>

#include <set>
#include <type_traits>

#include "core/base/bytes.hpp"

namespace gpumem::cli {
namespace {

constexpr int any_device = -1;

std::string size_text(config::size_value const& size) {
  switch (size.kind) {
    case config::size_value::unit::percent_of_free:
      return fmt::format("{:g} % of free", size.percent);
    case config::size_value::unit::percent_of_total:
      return fmt::format("{:g} % of total", size.percent);
    case config::size_value::unit::bytes:
      break;
  }
  return std::string(base::print_exact_bytes(size.bytes).view());
}

// Bins are drawn as branches, not as an option.
std::string option_text(config::option const& value) {
  return std::visit(
      [](auto const& held) -> std::string {
        using type = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<type, bool>)
          return held ? "true" : "false";
        else if constexpr (std::is_same_v<type, std::int64_t>)
          return std::to_string(held);
        else if constexpr (std::is_same_v<type, std::string>)
          return held;
        else if constexpr (std::is_same_v<type, config::size_value>)
          return size_text(held);
        else
          return {};
      },
      value);
}

void add_resource(std::string& text, config::plan const& plan, std::string const& name, int device,
                  std::string const& indent, std::set<std::string>& above) {
  config::resource_plan const* const resource = plan.find(name, device);
  if (resource == nullptr) {
    text += indent + name + "\n";
    return;
  }
  text += indent + name + (resource->type == name ? "" : " (" + resource->type + ")");
  std::string separator = "   ";
  for (auto const& [key, value] : resource->options) {
    std::string const shown = option_text(value);
    if (shown.empty()) continue;
    text += separator + key + " = " + shown;
    separator = ", ";
  }
  text += '\n';
  if (!above.insert(name).second) return;  // a cycle: told as an error, drawn once
  for (auto const& [key, value] : resource->options) {
    auto const* const bins = std::get_if<std::vector<config::bin>>(&value);
    for (std::size_t i = 0; bins != nullptr && i < bins->size(); ++i) {
      config::bin const& bin = (*bins)[i];
      std::string const limit = fmt::format("{}  <= {:<8} ", indent, base::print_exact_bytes(bin.max).view());
      if (bin.to.empty()) {
        text += limit + "fixed_size blocks of " + std::string(base::print_exact_bytes(bin.max).view()) + "\n";
      } else {
        add_resource(text, plan, bin.to, device, limit, above);
      }
    }
  }
  above.erase(name);
}

void add_route(std::string& text, config::plan const& plan, char const* label,
               config::route_plan const& route, int device) {
  std::string const first = fmt::format("{:<10}", label);
  if (route.passthrough) {
    text += first + "passthrough: the driver serves it, gpumem counts\n";
    return;
  }
  std::string indent = first;
  for (auto const& name : route.chain) {
    std::set<std::string> above;
    add_resource(text, plan, name, device, indent, above);
    indent = std::string(10, ' ');
  }
}

}  // namespace

std::string chain_tree(config::plan const& plan) {
  std::string text;
  add_route(text, plan, "device", plan.device, any_device);
  add_route(text, plan, "managed", plan.managed, any_device);
  add_route(text, plan, "host", plan.host, any_device);
  for (auto const& [device, resources] : plan.devices) {
    add_route(text, plan, fmt::format("device.{}", device).c_str(), plan.device, device);
  }
  return text;
}

}  // namespace gpumem::cli
