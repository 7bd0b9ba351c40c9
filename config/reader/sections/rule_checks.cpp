// See rule_checks.hpp.
#include "config/reader/sections/rule_checks.hpp"

#include <algorithm>

#include "config/text/size_text.hpp"
#include "config/text/suggest.hpp"
#include "core/base/text/bytes.hpp"
#include "core/base/text/glob.hpp"

namespace gpumem::config {
namespace {

struct call {  // without pointers, which every process would relocate
  char name[24];
  char kind[8];
};

// What chains can serve; a test holds this list against the hooks.
constexpr call calls[] = {
    {"cudaMalloc", "device"},           {"cudaMallocAsync", "device"},    {"cudaMallocAsync_ptsz", "device"},
    {"cuMemAlloc", "device"},           {"cuMemAlloc_v2", "device"},      {"cuMemAllocAsync", "device"},
    {"cuMemAllocAsync_ptsz", "device"}, {"cudaMallocManaged", "managed"}, {"cuMemAllocManaged", "managed"},
    {"cudaMallocHost", "host"},         {"cudaHostAlloc", "host"},        {"cuMemAllocHost", "host"},
    {"cuMemAllocHost_v2", "host"},      {"cuMemHostAlloc", "host"},       {"gpumem_allocate", "device"},
    {"gpumem_allocate_sync", "device"},
};

std::string shown(std::uint64_t bytes) {
  return std::string(base::print_exact_bytes(bytes).view());
}

void check_api(rule_plan const& rule, file_position at, diagnostics& out) {
  std::vector<std::string_view> of_kind, all;
  std::string_view other;
  for (auto const& known : calls) {
    all.push_back(known.name);
    if (known.kind == rule.kind) of_kind.push_back(known.name);
    if (!base::matches(rule.api, known.name)) continue;
    if (known.kind == rule.kind) return;
    other = known.kind;
  }
  if (!other.empty()) {
    out.error("E218", at,
              "api = " + quoted(rule.api) + " asks for " + std::string(other) +
                  " memory, and the rule is for " + rule.kind + " memory",
              "add kind = \"" + std::string(other) + "\"");
    return;
  }
  auto const guess = did_you_mean(rule.api, all);
  out.error("E218", at, "api = " + quoted(rule.api) + " names no call that a chain can serve",
            (guess.empty() ? "" : guess + "  ") + "calls: " + joined(of_kind));
}

void check_rule(rule_plan const& rule, std::size_t number, draft const& all, diagnostics& out) {
  std::string const where = "rule." + std::to_string(number);
  std::string const name = "rule " + std::to_string(number + 1);
  if (rule.min_size && rule.max_size && *rule.min_size > *rule.max_size) {
    out.error(
        "E220", all.where(where + ".min_size"),
        "min_size (" + shown(*rule.min_size) + ") is larger than max_size (" + shown(*rule.max_size) + ")",
        "no request is both");
  }
  if (!rule.name.empty() && rule.kind != "device") {
    out.error("E223", all.where(where + ".kind"), name + " has a name, and its kind is " + quoted(rule.kind),
              "what a program asks for by a name is device memory: remove kind; a chain that ends in "
              "\"managed\" may stand there");
  }
  if (!rule.api.empty()) check_api(rule, all.where(where + ".api"), out);
  // After an error what is missing may have been meant.
  if (!out.has_errors() && rule.name.empty() && rule.library.empty() && rule.api.empty() && !rule.min_size &&
      !rule.max_size && rule.device < 0) {
    out.warning("W503", all.where(where),
                name + " has no condition: it takes every request for " + rule.kind + " memory",
                "set route." + rule.kind + " instead, or add library, api, min_size, max_size or device");
  }
}

}  // namespace

std::vector<rule_plan const*> chains_of_rules(plan const& of) {
  std::vector<rule_plan const*> result;
  for (auto const& rule : of.rules) {
    auto const& route = of.route_of(rule.kind);
    bool const own = rule.chain.passthrough || (!route.passthrough && route.chain == rule.chain.chain);
    bool const known = std::any_of(result.begin(), result.end(), [&](rule_plan const* other) {
      return other->kind == rule.kind && other->chain.chain == rule.chain.chain;
    });
    if (!own && !known) result.push_back(&rule);
  }
  return result;
}

std::string conditions_of(rule_plan const& rule) {
  std::string text;
  auto const add = [&text](std::string const& part) { text += (text.empty() ? "" : ", ") + part; };
  if (!rule.name.empty()) add("asked for as " + quoted(rule.name));
  if (!rule.library.empty()) add(rule.library);
  if (!rule.api.empty()) add(rule.api);
  if (rule.min_size) add(">= " + std::string(base::print_exact_bytes(*rule.min_size).view()));
  if (rule.max_size) add("<= " + std::string(base::print_exact_bytes(*rule.max_size).view()));
  if (rule.device >= 0) add("device " + std::to_string(rule.device));
  if (rule.kind != "device") add(rule.kind + " memory");
  return text.empty() ? "every request" : text;
}

void check_rules(draft const& all, diagnostics& out) {
  auto const& rules = all.result.rules;
  for (std::size_t i = 0; i < rules.size(); ++i) check_rule(rules[i], i, all, out);
  auto const chains = chains_of_rules(all.result);
  if (chains.size() > most_rule_chains) {
    auto const number = static_cast<std::size_t>(chains[most_rule_chains] - rules.data());
    out.error("E217", all.where("rule." + std::to_string(number) + ".chain"),
              std::to_string(chains.size()) + " different chains in rules are too many",
              "at most " + std::to_string(most_rule_chains) + "; rules may share a chain");
  }
}

}  // namespace gpumem::config
