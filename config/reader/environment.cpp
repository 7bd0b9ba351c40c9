// Reads GPUMEM_*; see environment.hpp. One thread, once a process.
// GPUMEM_SIMULATED_* belongs to the tests' stand-in for CUDA and is none of ours.
#include "config/reader/environment.hpp"

#include "config/reader/values/value_reader.hpp"
#include "config/schema/schema.hpp"
#include "config/text/suggest.hpp"

namespace gpumem::config {
namespace {

constexpr std::string_view prefix = "GPUMEM_";
constexpr std::string_view test_prefix = "GPUMEM_SIMULATED_";

void report(environment& to, severity level, char const* code, std::string text, std::string note) {
  to.diagnostics.push_back({level, code, "gpumem: environment", {}, std::move(text), std::move(note), {}});
}

bool is_one_of(std::string_view value, std::initializer_list<std::string_view> words) noexcept {
  for (auto word : words) {
    if (value == word) return true;
  }
  return false;
}
bool is_yes(std::string_view value) noexcept {
  return is_one_of(value, {"1", "true", "yes", "on"});
}
bool is_no(std::string_view value) noexcept {
  return is_one_of(value, {"", "0", "false", "no", "off"});
}

void unknown_variable(environment& to, std::string_view name) {
  std::vector<std::string_view> names;
  for (auto const& variable : all_variables()) names.push_back(variable.name);
  auto const guess = nearest(name, names);
  report(to, severity::warning, "W510", quoted(name) + " is not a variable of gpumem",
         guess.empty() ? "known: " + joined(names) : "did you mean " + std::string(guess) + "?");
}

void bad_value(environment& to, variable_info const& variable, std::string_view value) {
  auto const words = split_words(variable.words);
  auto const guess = did_you_mean(value, words);
  report(to, severity::error, "E511", std::string(variable.name) + " = " + quoted(value) + " is unknown",
         (guess.empty() ? "" : guess + "  ") + "known values: " + joined(words));
}

void take_pattern(environment& to, variable_info const& variable, std::string const& value,
                  std::optional<std::string>& field) {
  std::string const problem = pattern_problem(value, variable.words);
  if (!problem.empty()) report(to, severity::error, "E511", std::string(variable.name) + ": " + problem, "");
  field = value;
}

// "LEVEL", "LEVEL:FILE", ":FILE".
void take_log(environment& to, variable_info const& variable, std::string const& value) {
  auto const colon = value.find(':');
  std::string const level = value.substr(0, colon);
  if (!level.empty()) {
    to.log_level = level;
    if (!holds_word(variable.words, level)) bad_value(to, variable, level);
  }
  if (colon == value.npos) return;
  to.log_file = value.substr(colon + 1);
  std::string const problem = log_file_problem(*to.log_file);
  if (!problem.empty()) report(to, severity::error, "E511", std::string(variable.name) + ": " + problem, "");
}

void take(environment& to, variable_info const& variable, std::string const& value) {
  auto const is = [&](std::string_view name) { return variable.name.substr(prefix.size()) == name; };
  // An empty one is none, as for a shell. Of the report it may mean "none" or the default: that is asked
  // back.
  if (value.empty() && !is("REPORT")) return;
  if (is("CONFIG")) to.config = value;
  if (is("STATE_DIR")) to.state_dir = value;
  if (is("RUN_ID")) to.run_id = value;
  if (is("REPORT")) take_pattern(to, variable, value, to.report);
  if (is("JSON")) take_pattern(to, variable, value, to.json);
  if (is("RECORD")) take_pattern(to, variable, value, to.record);
  if (is("DISABLE")) {
    to.disabled = is_yes(value);
    if (!is_yes(value) && !is_no(value)) bad_value(to, variable, value);
  }
  if (is("PHASES")) {
    to.phases = is_yes(value);
    if (!is_yes(value) && !is_no(value)) bad_value(to, variable, value);
  }
  if (is("LOG")) take_log(to, variable, value);
  if (is("LOG_LEVEL")) {
    to.other_log_level = value;
    if (!holds_word(variable.words, value)) bad_value(to, variable, value);
  }
  if (is("ON_ERROR")) {
    if (holds_word(variable.words, value)) {
      to.error_policy = value == "abort" ? on_error::abort : on_error::passthrough;
    } else {
      bad_value(to, variable, value);
    }
  }
}

}  // namespace

environment read_environment(char const* const* variables) {
  environment result;
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    std::string_view const entry = *variables;
    auto const equals = entry.find('=');
    auto const name = entry.substr(0, equals);
    if (equals == entry.npos || !name.starts_with(prefix) || name.starts_with(test_prefix)) continue;
    variable_info const* known = nullptr;
    for (auto const& variable : all_variables()) {
      if (variable.name == name) known = &variable;
    }
    if (known == nullptr) {
      unknown_variable(result, name);
    } else {
      take(result, *known, std::string(entry.substr(equals + 1)));
    }
  }
  return result;
}

namespace {
// `name` with its sign of equality; the first of several, as getenv has it.
bool is_set_to_yes(char const* const* variables, std::string_view name) noexcept {
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    std::string_view const entry = *variables;
    if (entry.starts_with(name)) return is_yes(entry.substr(name.size()));
  }
  return false;
}

}  // namespace

bool is_disabled(char const* const* variables) noexcept {
  return is_set_to_yes(variables, "GPUMEM_DISABLE=");
}

bool asks_for_phases(char const* const* variables) noexcept {
  return is_set_to_yes(variables, "GPUMEM_PHASES=");
}

}  // namespace gpumem::config
