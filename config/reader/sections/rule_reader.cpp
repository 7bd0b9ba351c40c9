// Reads rules; see rule_reader.hpp. One thread, once a load. A rule with a mistake is kept: the file is
// refused anyway, and the rules behind it keep their numbers in messages.
#include "config/reader/sections/rule_reader.hpp"

#include <algorithm>
#include <span>

#include "config/reader/sections/resource_reader.hpp"
#include "config/reader/sections/route_reader.hpp"
#include "config/reader/sections/rule_checks.hpp"
#include "config/reader/values/value_reader.hpp"
#include "config/schema/schema.hpp"

namespace gpumem::config {
namespace {

constexpr char const* example =
    "write [[rule]] and below it library = \"libnccl*\" and chain = \"passthrough\"";

void keep(rule_plan& rule, std::string_view key, option const& value) {
  if (key == "name") rule.name = std::get<std::string>(value);
  if (key == "library") rule.library = std::get<std::string>(value);
  if (key == "api") rule.api = std::get<std::string>(value);
  if (key == "kind") rule.kind = std::get<std::string>(value);
  if (key == "min_size") rule.min_size = std::get<size_value>(value).bytes;
  if (key == "max_size") rule.max_size = std::get<size_value>(value).bytes;
  if (key == "device") rule.device = static_cast<int>(std::get<std::int64_t>(value));
}

void read_rule(node const& table, std::size_t number, draft& to, diagnostics& out) {
  std::string const where = "rule." + std::to_string(number);
  std::string const shown = "rule " + std::to_string(number + 1);
  rule_plan rule;
  to.places[where] = table.at;
  for (auto const& child : table.children) {
    key_info const* const key = find_key("rule", child.key);
    if (key == nullptr) {
      std::vector<std::string_view> names;
      for (auto const* known : keys_of("rule")) names.push_back(known->name);
      unknown_key(child, "[[rule]]", names, out);
      continue;
    }
    to.places[where + "." + child.key] = child.at;
    rule.origins[child.key] = {out.position(child.at)};
    if (key->kind == value_kind::chain) {
      read_route(child, where + ".chain", "the chain of " + shown, rule.chain, to, out);
    } else if (auto const value = read_value(*key, child, "rule." + child.key, out)) {
      keep(rule, child.key, *value);
    }
  }
  if (table.find("chain") == nullptr) {
    out.error(
        "E205", table.at, shown + " needs a chain",
        "add chain = [\"pool\", \"cuda\"], or chain = \"passthrough\" to leave these calls to the driver");
  }
  to.result.rules.push_back(std::move(rule));
}

}  // namespace

void read_rules(node const& rules, draft& to, diagnostics& out) {
  if (rules.type != node::kind::array) {
    out.error("E203", rules.type == node::kind::table ? rules.key_at : rules.at,
              "rule must be an array of tables, not " + std::string(kind_name(rules.type)), example);
    return;
  }
  if (rules.children.size() > most_rules) {
    out.error("E217", rules.children[most_rules].at,
              std::to_string(rules.children.size()) + " rules are too many",
              "at most " + std::to_string(most_rules) +
                  "; a pattern may stand for several libraries: \"lib*blas*\"");
  }
  std::size_t const count = std::min(rules.children.size(), most_rules);
  for (node const& table : std::span(rules.children).first(count)) {
    if (table.type == node::kind::table) {
      read_rule(table, to.result.rules.size(), to, out);
    } else {
      out.error("E203", table.at, "a rule must be a table, not " + std::string(kind_name(table.type)),
                example);
    }
  }
}

}  // namespace gpumem::config
