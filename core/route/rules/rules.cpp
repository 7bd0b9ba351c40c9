// See rules.hpp.
#include "core/route/rules/rules.hpp"

#include "core/base/text/glob.hpp"
#include "core/driver/runtime_name.hpp"

namespace gpumem::route {
namespace {

std::vector<std::string> libraries_of(std::vector<rule> const& rules) {
  std::vector<std::string> patterns;
  for (auto const& r : rules) patterns.push_back(r.library);
  return patterns;
}

// By its symbol, by the name that headers know it by, or by the runtime call that leads to it: below a static
// runtime the driver function is all that is seen.
bool names_call(std::string const& pattern, std::string_view symbol) noexcept {
  std::string_view const runtime = driver::runtime_name(symbol);
  return pattern.empty() || base::matches(pattern, symbol) ||
         base::matches(pattern, driver::plain_name(symbol)) ||
         (!runtime.empty() && base::matches(pattern, runtime));
}

}  // namespace

rule_set::rule_set(std::vector<rule> rules, std::span<std::string_view const> calls)
    : rules_(std::move(rules)), asking_(libraries_of(rules_)) {
  for (std::size_t i = 0; i < rules_.size() && i < max_rules; ++i) {
    mask const bit = mask{1} << i;
    by_library_ = by_library_ || !rules_[i].library.empty();
    if (rules_[i].name.empty()) of_kind_[static_cast<std::size_t>(rules_[i].kind)] |= bit;
    for (std::size_t call = 0; call < calls.size() && call < of_call_.size(); ++call) {
      if (names_call(rules_[i].api, calls[call])) of_call_[call] |= bit;
    }
  }
}

std::uint64_t rule_set::named(std::string_view name) const noexcept {
  mask found = 0;
  for (std::size_t i = 0; i < rules_.size() && i < max_rules; ++i) {
    if (!rules_[i].name.empty() && rules_[i].name == name) found |= mask{1} << i;
  }
  return found;
}

driver::memory_kind rule_set::kind_of(std::size_t chain) const noexcept {
  if (chain < kinds) return static_cast<driver::memory_kind>(chain);
  for (auto const& r : rules_) {
    if (r.chain == chain) return r.kind;
  }
  return driver::memory_kind::device;
}

}  // namespace gpumem::route
