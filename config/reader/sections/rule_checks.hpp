// Checks of single rules: conditions that can be met, calls that exist, how many there may be. Called by
// validate, once a load; one thread. Their chains are checked with those of the routes.
#pragma once

#include <string>
#include <vector>

#include "config/reader/values/draft.hpp"
#include "config/text/diagnostic.hpp"

namespace gpumem::config {

inline constexpr std::size_t most_rules = 64;
inline constexpr std::size_t most_rule_chains = 13;  // different ones, beyond those of the routes

void check_rules(draft const& all, diagnostics& out);

// The chains that only rules name, in the order of their first rule. Equal ones for the same memory are one.
std::vector<rule_plan const*> chains_of_rules(plan const& of);

// "libnccl*, cudaMalloc, >= 1 GiB", for people.
std::string conditions_of(rule_plan const& rule);

}  // namespace gpumem::config
