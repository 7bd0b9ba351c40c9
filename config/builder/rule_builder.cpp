// See builder.hpp. Here: the rules of the plan as the values that core matches requests against. Called once,
// at the start, on one thread.
#include "config/builder/builder.hpp"
#include "config/reader/sections/rule_checks.hpp"

namespace gpumem::config {
namespace {

static_assert(most_rules == route::max_rules && most_rule_chains == route::max_chains - route::kinds);

driver::memory_kind kind_of(std::string const& name) noexcept {
  return name == "host"      ? driver::memory_kind::host
         : name == "managed" ? driver::memory_kind::managed
                             : driver::memory_kind::device;
}

std::size_t chain_of(rule_plan const& rule, plan const& effective) {
  if (rule.chain.passthrough) return route::passthrough;
  auto const own = chains_of_rules(effective);
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i]->kind == rule.kind && own[i]->chain.chain == rule.chain.chain) return route::kinds + i;
  }
  return static_cast<std::size_t>(kind_of(rule.kind));
}

std::string chain_text(rule_plan const& rule) {
  if (rule.chain.passthrough) return "passthrough";
  std::string text;
  for (auto const& name : rule.chain.chain) text += (text.empty() ? "" : " > ") + name;
  return text;
}

}  // namespace

std::unique_ptr<route::rule_set> make_rules(plan const& effective, std::span<std::string_view const> calls) {
  if (effective.rules.empty()) return nullptr;
  std::vector<route::rule> rules;
  for (auto const& rule : effective.rules) {
    rules.push_back({.name = rule.name,
                     .library = rule.library,
                     .api = rule.api,
                     .min_size = rule.min_size.value_or(0),
                     .max_size = rule.max_size.value_or(~std::uint64_t{0}),
                     .device = rule.device,
                     .kind = kind_of(rule.kind),
                     .chain = chain_of(rule, effective),
                     .label = conditions_of(rule),
                     .serves = chain_text(rule)});
  }
  return std::make_unique<route::rule_set>(std::move(rules), calls);
}

}  // namespace gpumem::config
