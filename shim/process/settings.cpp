// Reads the user's settings once, at the start; see settings.hpp. Everything kept here is leaked on
// purpose: hooks and the report may need it while the program's static objects are being destroyed. Never
// called from a hook's path.
#include "shim/process/settings.hpp"

#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <string>

#include "config/builder/budgets.hpp"
#include "config/builder/builder.hpp"
#include "config/load.hpp"
#include "core/base/environment.hpp"
#include "core/base/files/file_pattern.hpp"
#include "core/base/files/high_fd.hpp"
#include "core/base/log/line_writer.hpp"
#include "core/base/log/log.hpp"
#include "core/recording/writer/recorder.hpp"
#include "core/stats/callers/samples.hpp"
#include "core/stats/page/describe_process.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::shim::settings {
namespace {

constexpr int configuration_error = 78;  // EX_CONFIG of sysexits.h

struct values {
  config::plan plan;
  report::write_options report;
  std::string log_file;        // empty: stderr
  std::string recording_file;  // empty: none
  std::string run_id;
};

values* current = nullptr;

// Where the program is now is where its user named the file.
std::string made_absolute(std::string const& pattern) {
  char folder[PATH_MAX];
  return ::getcwd(folder, sizeof folder) == nullptr ? pattern : base::pattern_in_folder(pattern, folder);
}

bool is_stderr(std::string_view pattern) noexcept {
  return pattern == "stderr" || pattern == "/dev/stderr";
}

// A copy, where a report is to be on stderr at the end, as programs close theirs before; itself if there is
// no room for one. Without a need there is none: whoever reads a pipe waits until nobody has it open.
int descriptor_for_reports(config::plan const& plan, int descriptor) noexcept {
  if (descriptor < 0 || !(is_stderr(plan.report_text) || is_stderr(plan.report_json))) return descriptor;
  int const copy = base::copy_to_high_fd(descriptor);
  return copy >= 0 ? copy : descriptor;
}

bool load_or_throw(int descriptor) {
  auto const variables = config::read_environment(base::user_environment());
  if (variables.disabled) return false;
  auto loaded = config::load(variables);
  if (loaded.no_host_memory) throw std::bad_alloc();
  bool const ends = loaded.failed() && loaded.plan.error_policy == config::on_error::abort;
  auto const outcome = !loaded.failed() ? config::consequence::none
                       : ends           ? config::consequence::not_started
                                        : config::consequence::passthrough;
  base::write_all(descriptor, loaded.text(outcome));
  if (ends) _exit(configuration_error);
  if (loaded.failed()) return false;

  auto* next = new values;
  next->plan = std::move(loaded.plan);
  next->run_id = variables.run_id.value_or("");
  next->report.text = made_absolute(next->plan.report_text);
  next->report.json = made_absolute(next->plan.report_json);
  next->log_file = next->plan.log_file == "stderr" ? "" : made_absolute(next->plan.log_file);
  if (next->plan.recording_file != "none") next->recording_file = made_absolute(next->plan.recording_file);
  current = next;
  auto level = base::log_level::warn;
  base::parse_log_level(next->plan.log_level, level);
  base::start_log(descriptor_for_reports(current->plan, descriptor), level, current->plan.log_pattern);
  return true;
}

}  // namespace

bool is_secure() noexcept {
  return ::getauxval(AT_SECURE) != 0;
}

bool load(int descriptor) noexcept {
  try {
    return load_or_throw(descriptor);
  } catch (...) {
    base::write_all(
        descriptor,
        "gpumem: warning: the configuration could not be read for lack of memory; all calls go to the "
        "driver\n");
    return false;
  }
}

bool is_silent() noexcept {
  if (is_secure()) return true;
  char const* const report = base::user_variable("GPUMEM_REPORT");
  return config::is_disabled(base::user_environment()) ||
         (report != nullptr && std::string_view(report) == "none");
}

void open_log() noexcept {
  if (current->log_file.empty()) return;
  int const saved = errno;
  try {
    base::expansion const name = base::expand_pattern(current->log_file, stats::values_of_this_process());
    base::created_file made;
    made.error = name.error;
    if (made.error.empty())
      made = base::create_without_overwriting(name.text, {.out = -1, .error = base::log_descriptor()});
    if (made.error.empty()) {
      int const high = base::copy_to_high_fd(made.descriptor);
      if (high >= 0) ::close(made.descriptor);
      base::log_into(high >= 0 ? high : made.descriptor, made.path);
    } else {
      base::log_line(base::log_level::warn, "log.file: " + made.error + "; messages go to stderr");
    }
  } catch (...) {
    base::log_line(base::log_level::warn, "log.file: no host memory to make it; messages go to stderr");
  }
  errno = saved;
}

void say_what_started(int driver_version, char const* cudart) noexcept {
  try {
    std::string text = "version " GPUMEM_VERSION ", driver of CUDA " + std::to_string(driver_version / 1000) +
                       "." + std::to_string(driver_version % 1000 / 10) + ", CUDA runtime " + cudart +
                       ", configuration " + (current->plan.path.empty() ? "built in" : current->plan.path);
    base::log_line(base::log_level::info, text);
  } catch (...) {  // no host memory: nobody waits for this line
  }
}

void describe() noexcept {
  stats::describe_config(current->plan.path, current->plan.text,
                         static_cast<unsigned>(current->plan.warnings.size()));
  stats::use_samples(current->plan.sample_every);
  try {
    stats::describe_categories(stats::packed(current->plan.categories));
  } catch (std::bad_alloc const&) {
    base::log_line(base::log_level::warn, "no host memory for the categories: the report has none");
  }
}

void start_recording() noexcept {
  if (current->recording_file.empty()) return;
  recording::start({.file = current->recording_file,
                    .max_bytes = current->plan.recording_max_bytes,
                    .tool_version = GPUMEM_VERSION});
}

bool wants_phases() noexcept {
  return current->plan.phases;
}

void start_router(std::span<std::string_view const> calls) noexcept {
  route::rule_set* rules = nullptr;
  try {
    rules = config::make_rules(current->plan, calls).release();
  } catch (std::bad_alloc const&) {
    base::log_line(base::log_level::warn, "no host memory for the rules: all requests take their routes");
  }
  route::use_limits(config::use_limits(current->plan));
  route::start(config::use_plan(current->plan), current->plan.free, rules, current->plan.pools,
               config::may_build_ahead(current->plan));
}
report::write_options report_options() noexcept {
  report::write_options options = current->report;
  options.stderr_fd = base::log_descriptor();
  return options;
}
report::write_options const& report_patterns() noexcept {
  return current->report;
}
bool writes_to_stdout() noexcept {
  auto const is = [](std::string const& pattern) {
    return pattern == "/dev/stdout" || (pattern != "stderr" && base::is_standard_stream(pattern));
  };
  return is(current->report.text) || is(current->report.json);
}
std::string_view tool_version() noexcept {
  return GPUMEM_VERSION;
}
std::string_view run_id() noexcept {
  return current->run_id;
}

}  // namespace gpumem::shim::settings
