// Runs the steps of a load in order; see load.hpp. One thread, once a process. The built-in default takes
// the same steps as a file, so that it cannot mean something a file could not say.
#include "config/load.hpp"

#include <algorithm>
#include <exception>
#include <new>

#include "config/checks/validate.hpp"
#include "config/effective.hpp"
#include "config/reader/file/source_file.hpp"
#include "config/reader/file/toml_reader.hpp"
#include "config/reader/table_reader.hpp"

namespace gpumem::config {
namespace {

constexpr std::string_view built_in =
    "version = 1\n"
    "[route]\n"
    "device = [\"pool\", \"cuda\"]\n";
constexpr char const* built_in_name = "built-in default";

void read_text(std::string const& name, std::string_view text, load_result& to) {
  text = strip_mark(text);
  diagnostics out(name, text);
  draft all;
  node root;
  if (check_text(text, out) && read_toml(text, root, out)) {
    read_tables(root, all, out);
    bool const other_version = std::any_of(out.list().begin(), out.list().end(),
                                           [](auto const& item) { return item.code == "E106"; });
    if (!other_version) validate(all, out);
  }
  to.plan = std::move(all.result);
  for (auto& item : out.list()) to.diagnostics.push_back(std::move(item));
}

// Whatever the file says, there is no position to show for the built-in text.
void forget_positions(plan& of) {
  for (auto* route : {&of.device, &of.managed, &of.host}) route->where = {};
}

void apply(environment const& variables, plan& to) {
  auto const set = [&](char const* key, char const* variable) { to.origins[key] = {variable}; };
  if (variables.report) {
    to.report_text = *variables.report;
    set("report.text", "GPUMEM_REPORT");
  }
  if (variables.json) {
    to.report_json = *variables.json == "none" ? "" : *variables.json;
    set("report.json", "GPUMEM_JSON");
  }
  if (variables.phases) {
    to.phases = *variables.phases;
    set("report.phases", "GPUMEM_PHASES");
  }
  if (variables.record) {
    to.recording_file = *variables.record;
    set("recording.file", "GPUMEM_RECORD");
  }
  if (variables.error_policy) {
    to.error_policy = *variables.error_policy;
    set("behavior.on_config_error", "GPUMEM_ON_ERROR");
  }
  if (variables.log_level || variables.other_log_level) {
    to.log_level = variables.log_level ? *variables.log_level : *variables.other_log_level;
    set("log.level", variables.log_level ? "GPUMEM_LOG" : "GPUMEM_LOG_LEVEL");
  }
  if (variables.log_file) {
    to.log_file = *variables.log_file;
    set("log.file", "GPUMEM_LOG");
  }
}

void finish(load_result& result) {
  sort(result.diagnostics);
  for (auto const& item : result.diagnostics) {
    if (item.level == severity::warning) result.plan.warnings.push_back(render(item));
  }
  if (!result.failed()) result.plan.text = effective_text(result.plan);
}

// The one wall. Running out of host memory is no fault of the configuration's.
template <typename Steps>
load_result guarded(std::string const& name, Steps steps) noexcept {
  load_result result;
  try {
    steps(result);
    finish(result);
  } catch (std::bad_alloc const&) {
    result.no_host_memory = true;
  } catch (std::exception const& problem) {
    result.diagnostics.push_back(
        {severity::error, "E005", name, {}, std::string("cannot be read: ") + problem.what(), {}, {}});
  }
  return result;
}

}  // namespace

bool load_result::failed() const noexcept {
  return no_host_memory || std::any_of(diagnostics.begin(), diagnostics.end(),
                                       [](auto const& item) { return item.level == severity::error; });
}

std::string load_result::text(consequence outcome) const {
  if (no_host_memory) return "gpumem: error: the configuration could not be read: no host memory\n";
  return render(diagnostics, plan.path, outcome);
}

std::string_view default_text() noexcept {
  return built_in;
}

load_result load_text(std::string const& name, std::string_view text) noexcept {
  return guarded(name, [&](load_result& result) {
    read_text(name, text, result);
    result.plan.path = name;
  });
}

load_result load_file(std::string const& path) noexcept {
  return guarded(path, [&](load_result& result) {
    std::string text;
    if (read_file(path, text, result.diagnostics)) read_text(path, text, result);
    result.plan.path = path;
  });
}

load_result load_input(std::string const& path) noexcept {
  std::string const name = path == "-" ? "standard input" : path;
  return guarded(name, [&](load_result& result) {
    std::string text;
    if (read_file_or_pipe(path, text, result.diagnostics)) read_text(name, text, result);
    result.plan.path = name;
  });
}

load_result load(environment const& variables) noexcept {
  std::string const none;
  std::string const& path = variables.config ? *variables.config : none;
  return guarded(path, [&](load_result& result) {
    if (!variables.config) {
      read_text(built_in_name, built_in, result);
      forget_positions(result.plan);
    } else {
      result = load_file(path);
      result.plan.warnings.clear();
      for (auto& item : result.diagnostics) {
        if (item.code == "E001" && path.starts_with('/'))
          item.note = "GPUMEM_CONFIG names it: check the path";
      }
    }
    apply(variables, result.plan);
    for (auto const& item : variables.diagnostics) result.diagnostics.push_back(item);
  });
}

}  // namespace gpumem::config
