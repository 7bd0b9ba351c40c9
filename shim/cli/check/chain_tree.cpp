// See chain_tree.hpp.
#include "shim/cli/check/chain_tree.hpp"

#include <set>
#include <type_traits>

#include "config/reader/sections/rule_checks.hpp"
#include "core/base/text/bytes.hpp"
#include "core/base/text/format.hpp"
#include "shim/cli/check/chain_walk.hpp"

namespace gpumem::cli {
namespace {

std::string shown(std::uint64_t bytes) {
  return std::string(base::print_bytes(bytes).view());
}

std::string size_text(config::size_value const& size, device const& on) {
  using unit = config::size_value::unit;
  if (size.kind == unit::bytes) return std::string(base::print_exact_bytes(size.bytes).view());
  bool const total = size.kind == unit::percent_of_total;
  std::string const text = base::format("{:g} % of {}", size.percent, total ? "total" : "free");
  if (on.total == 0) return text;
  return base::format("{} ({}{})", text, total ? "" : "at most ", shown(size.resolve(on.total, on.total)));
}

// Bins and chains are drawn as branches, not as options.
std::string option_text(config::option const& value, device const& on) {
  return std::visit(
      [&on](auto const& held) -> std::string {
        using type = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<type, bool>)
          return held ? "true" : "false";
        else if constexpr (std::is_same_v<type, std::int64_t>)
          return std::to_string(held);
        else if constexpr (std::is_same_v<type, std::string>)
          return held;
        else if constexpr (std::is_same_v<type, config::size_value>)
          return size_text(held, on);
        else
          return {};
      },
      value);
}

constexpr std::size_t narrowest = 80;  // columns of a terminal

class drawing {
 public:
  drawing(config::plan const& plan, device const& on) : plan_(plan), on_(on) {}

  std::string text;

  // The first line begins with `first`, the others with as many blanks.
  void chain(std::vector<std::string> const& names, std::string first) {
    for (auto const& name : names) {
      resource(name, first);
      first.assign(first.size(), ' ');
    }
  }

 private:
  void resource(std::string const& name, std::string const& first) {
    config::resource_plan const* const found = plan_.find(name, on_.number);
    if (found == nullptr) return;  // an error, told before
    std::string line = first + name + (found->type == name ? "" : " (" + found->type + ")");
    std::string const below(line.size() + 3, ' ');
    std::string separator = "   ";
    for (auto const& [key, value] : found->options) {
      std::string const held = option_text(value, on_);
      if (held.empty()) continue;
      std::string const part = key + " = " + held;
      if (line.size() + separator.size() + part.size() >= narrowest && line.size() > below.size()) {
        text += line + ",\n";
        line = below;
        separator.clear();
      }
      line += separator + part;
      separator = ", ";
    }
    text += line + '\n';
    if (!parent_.insert(name).second) return;  // a cycle: told as an error, drawn once
    std::string const indent(first.size() + 2, ' ');
    if (auto const* const bins = bins_of(*found)) {
      for (auto const& bin : *bins) {
        std::string const max(base::print_exact_bytes(bin.max).view());
        std::string const limit = base::format("{}<= {:<8} ", indent, max);
        if (bin.to.empty())
          text += limit + "fixed_size blocks of " + max + "\n";
        else
          resource(bin.to, limit);
      }
    }
    if (auto const* const branches = branches_of(*found)) {
      for (std::size_t i = 0; i < branches->size(); ++i) {
        chain((*branches)[i], base::format("{}{}  ", indent, i + 1));
      }
    }
    parent_.erase(name);
  }

  config::plan const& plan_;
  device const& on_;
  std::set<std::string> parent_;
};

constexpr char const* passthrough = "passthrough: the driver serves it, gpumem counts\n";

void draw_rule(drawing& to, config::plan const& plan, std::size_t number) {
  config::rule_plan const& rule = plan.rules[number];
  to.text += base::format("rule {:<4} {}\n", number + 1, config::conditions_of(rule));
  std::string const indent(10, ' ');
  if (rule.chain.passthrough) {
    to.text += indent + passthrough;
    return;
  }
  auto const& route = plan.route_of(rule.kind);
  if (!route.passthrough && route.chain == rule.chain.chain) {
    to.text += indent + "the chain of route." + rule.kind + "\n";
    return;
  }
  for (std::size_t i = 0; i < number; ++i) {
    auto const& other = plan.rules[i];
    if (other.kind != rule.kind || other.chain.passthrough || other.chain.chain != rule.chain.chain) continue;
    to.text += indent + base::format("the chain of rule {}\n", i + 1);
    return;
  }
  to.chain(rule.chain.chain, indent);
}

}  // namespace

std::string chain_tree(config::plan const& plan, device const& on) {
  drawing result(plan, on);
  for (std::size_t i = 0; i < plan.rules.size(); ++i) {
    if (plan.rules[i].device < 0 || on.number < 0 || plan.rules[i].device == on.number)
      draw_rule(result, plan, i);
  }
  for (char const* kind : {"device", "managed", "host"}) {
    std::string const first = base::format("{:<10}", kind);
    if (plan.route_of(kind).passthrough)
      result.text += first + passthrough;
    else
      result.chain(plan.route_of(kind).chain, first);
  }
  return result.text;
}

}  // namespace gpumem::cli
