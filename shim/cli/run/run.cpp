// See run.hpp. A process that ends by exit writes its own report and removes its page; what is left in the
// state folder under this run's id belongs to processes that were killed, crashed, or replaced themselves by
// exec.
#include "shim/cli/run/run.hpp"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <tuple>
#include <utility>

#include "config/load.hpp"
#include "config/reader/values/value_reader.hpp"
#include "core/base/clock.hpp"
#include "core/base/files/file_pattern.hpp"
#include "core/base/log/line_writer.hpp"
#include "core/base/log/log.hpp"
#include "core/base/text/format.hpp"
#include "core/base/text/printable.hpp"
#include "core/recording/reader/recover.hpp"
#include "core/report/output/write_reports.hpp"
#include "core/stats/page/file/page_file.hpp"
#include "core/stats/page/file/run_mark.hpp"
#include "shim/cli/programs/interception.hpp"
#include "shim/cli/programs/preload.hpp"
#include "shim/cli/report/pages.hpp"
#include "shim/cli/report/source_lines.hpp"
#include "shim/cli/run/wait_for_child.hpp"

namespace gpumem::cli {
namespace {

void say(std::string const& line) {
  base::write_all(STDERR_FILENO, line);
}

int fail(std::string const& reason) {
  base::log_line(base::log_level::error, reason);
  return exit_gpumem_failed;
}

std::vector<char const*> pointers_to(std::vector<std::string> const& items) {
  std::vector<char const*> pointers;
  for (auto const& item : items) pointers.push_back(item.c_str());
  pointers.push_back(nullptr);
  return pointers;
}

// The program may change its folder before it writes there.
std::string from_here(std::string const& pattern) {
  char* const folder = ::getcwd(nullptr, 0);
  std::string const result = folder == nullptr ? pattern : base::pattern_in_folder(pattern, folder);
  std::free(folder);
  return result;
}

// By --config, else by the variable where that names it from here.
std::string config_from_here(std::string const& given) {
  char const* const variable = ::getenv("GPUMEM_CONFIG");
  bool const relative = variable != nullptr && *variable != '\0' && *variable != '/';
  std::string const path = !given.empty() ? given : relative ? variable : "";
  char* const real = path.empty() ? nullptr : ::realpath(path.c_str(), nullptr);
  std::string const result = real == nullptr ? given : real;
  std::free(real);
  return result;
}

// Each is documented by its framework. TensorFlow has none that takes its allocator away: cudaMallocAsync is
// the one that keeps nothing of its own.
constexpr std::pair<char const*, char const*> uncached_frameworks[] = {
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", "1"},
    {"XLA_PYTHON_CLIENT_ALLOCATOR", "platform"},
    {"TF_GPU_ALLOCATOR", "cuda_malloc_async"}};

std::string uncached_text() {
  std::string text = "gpumem: --uncached:";
  for (auto const& [name, value] : uncached_frameworks) text += base::format(" {}={}", name, value);
  text +=
      "\ngpumem: each tensor of PyTorch, JAX and TensorFlow is now a call of its own, which the chain "
      "serves: slower "
      "where\ngpumem: that has no pool; torch.cuda.memory_allocated() reads 0, and PyTorch captures no CUDA "
      "graph\n";
  return text;
}

// In place before the program's first call of NVTX, which tells what this names of its ranges; that of
// another tool stays, and the library puts itself in front of it.
void add_ranges(run_settings& settings) {
  char const* const tool = ::getenv("NVTX_INJECTION64_PATH");
  if (tool == nullptr || *tool == '\0')
    settings.variables.emplace_back("NVTX_INJECTION64_PATH", settings.library);
  auto const asks = [](auto const& variable) { return variable.first == "GPUMEM_PHASES"; };
  if (std::none_of(settings.variables.begin(), settings.variables.end(), asks))
    settings.variables.emplace_back("GPUMEM_PHASES", "1");
}

std::string usable_state_directory() {
  char path[stats::path_limit];
  if (!stats::state_directory(path) || stats::check_directory(path, true) != nullptr) return {};
  return path;
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string ending_of(int status) {
  if (!WIFSIGNALED(status)) return base::format("exited with {}", WEXITSTATUS(status));
  char const* const name = ::sigabbrev_np(WTERMSIG(status));
  return base::format("was killed by SIG{}", name == nullptr ? std::to_string(WTERMSIG(status)) : name);
}

stats::end_record end_of(child_result const& child, stats::snapshot const& content) {
  stats::end_record end;
  if (content.pid != child.pid) return end;  // a descendant: nobody here saw how it ended
  end.duration_ns = base::now_ns() - content.opened_mono_ns;
  end.kind = WIFSIGNALED(child.status) ? stats::end_kind::signal : stats::end_kind::exit;
  end.signal = WIFSIGNALED(child.status) ? WTERMSIG(child.status) : 0;
  end.code = WIFSIGNALED(child.status) ? 0 : WEXITSTATUS(child.status);
  return end;
}

// A script may have changed the variables for some of its programs. `own`: those of the program that was
// started.
config::plan plan_of(stats::snapshot const& content, std::vector<std::string> const& own,
                     config::plan const& plan) {
  auto const ours = [](std::vector<std::string> const& from) {
    std::vector<std::string> found;
    for (auto const& item : from) {
      if (item.starts_with("GPUMEM_")) found.push_back(item);
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  if (ours(content.environment) == ours(own)) return plan;
  config::environment variables = config::read_environment(pointers_to(content.environment).data());
  if (variables.config) variables.config = base::pattern_in_folder(*variables.config, content.cwd);
  config::load_result loaded = config::load(variables);
  return loaded.failed() ? plan : std::move(loaded.plan);
}

// What a killed process left of its recording goes into the file.
void complete_recording(std::string const& path) {
  if (path.empty()) return;
  recording::recovery_result const done = recording::recover(path);
  if (done.what == recording::recovery::not_needed || done.what == recording::recovery::done) return;
  base::log_line(base::log_level::warn, base::format("the recording {} lacks its last events: {}",
                                                     base::printable(path), base::printable(done.reason)));
}

// Of the program itself, killed before its page could be read by anyone: it did nothing yet. Pages of other
// versions are not read either, and stay.
bool is_stillborn(found_page const& page, child_result const& child, time_t began) {
  struct stat there {};
  return page.pid == child.pid && !page.process_lives() && ::lstat(page.path.c_str(), &there) == 0 &&
         there.st_mtime >= began;
}

void report_what_is_left(child_result const& child, std::string const& run_id, time_t began,
                         std::vector<std::string> const& own, config::plan const& common) {
  for (found_page const& page : find_pages().pages) {
    stats::snapshot_result const taken = stats::read_snapshot(page.path);
    if (!taken.error.empty() && is_stillborn(page, child, began)) ::unlink(page.path.c_str());
    if (!taken.error.empty() || taken.value.run_id != run_id) continue;
    bool const ended_by_exit = taken.value.closed && taken.value.end.kind == stats::end_kind::exit &&
                               taken.value.end.clean != stats::report_is_left;
    if (taken.value.empty() && taken.value.closed) {
      ::unlink(page.path.c_str());
      continue;
    }
    if (ended_by_exit || (!taken.value.closed && page.process_lives())) {
      say(base::format("gpumem: pid {} {}: gpumem report --pid {}\n", page.pid,
                       ended_by_exit ? "could not write all of its report" : "still runs", page.pid));
      continue;
    }
    complete_recording(taken.value.recording_path);
    config::plan const plan = plan_of(taken.value, own, common);
    report::write_options options;
    options.text = base::pattern_in_folder(plan.report_text, taken.value.cwd);
    options.json = base::pattern_in_folder(plan.report_json, taken.value.cwd);
    options.document.written_by = "gpumem run";
    options.document.end = end_of(child, taken.value);
    options.document.add_lines = add_source_lines;
    if (report::write_reports(taken.value, options)) ::unlink(page.path.c_str());
  }
}

void make_mark(run_settings const& settings) {
  char path[stats::path_limit];
  if (settings.state_directory.empty() ||
      !stats::path_of_mark(settings.state_directory.c_str(), settings.run_id, path))
    return;
  int const file = ::open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file >= 0) ::close(file);
}

// True if it is still there.
bool take_mark(run_settings const& settings) {
  char path[stats::path_limit];
  return stats::path_of_mark(settings.state_directory.c_str(), settings.run_id, path) && ::unlink(path) == 0;
}

std::string why_unseen(std::string const& program) {
  std::string text = "gpumem: no CUDA call was seen, so there is no report\n";
  if (config::is_disabled(::environ)) return text + "gpumem: GPUMEM_DISABLE is set: unset it\n";
  interception const seen = inspect(program, of_this_process());
  for (auto const& problem : seen.problems) text += "gpumem: " + base::printable(problem) + "\n";
  if (!seen.problems.empty()) return text;
  if (seen.result == verdict::unknown)
    text += "gpumem: " + base::printable(program) +
            " is linked to no CUDA; what it starts or loads made no call either\n";
  return text +
         "gpumem: a static program, a setuid one, and what is started without this environment (sudo, ssh,\n"
         "gpumem: containers) cannot be seen: gpumem check -- PROGRAM tells of one, or run gpumem inside\n";
}

}  // namespace

int run(run_options const& options) {
  library const found = find_library();
  if (!found.error.empty()) return fail(found.error);
  for (auto const& [flag, pattern, key] :
       {std::tuple("--output", options.text, config::find_key("report", "text")),
        std::tuple("--json", options.json, config::find_key("report", "json")),
        std::tuple("--record", options.record, config::find_key("recording", "file"))}) {
    std::string const problem = pattern.empty() ? "" : config::pattern_problem(pattern, key->words);
    if (!problem.empty()) return fail(std::string(flag) + ": " + problem);
  }
  run_settings settings{
      found.path, {}, base::format("{}-{:x}", ::getpid(), base::now_ns()), usable_state_directory()};
  settings.config = config_from_here(options.config);
  if (!options.text.empty()) settings.variables.emplace_back("GPUMEM_REPORT", from_here(options.text));
  if (!options.json.empty()) settings.variables.emplace_back("GPUMEM_JSON", from_here(options.json));
  if (!options.record.empty()) settings.variables.emplace_back("GPUMEM_RECORD", from_here(options.record));
  if (options.uncached) {
    for (auto const& [name, value] : uncached_frameworks) settings.variables.emplace_back(name, value);
  }
  if (!settings.state_directory.empty()) ::setenv("GPUMEM_STATE_DIR", settings.state_directory.c_str(), 1);
  if (options.phases) settings.variables.emplace_back("GPUMEM_PHASES", "1");
  std::vector<std::string> environment = environment_of(::environ, settings);
  config::load_result loaded = config::load(config::read_environment(pointers_to(environment).data()));
  if (!loaded.failed() && loaded.plan.phases) {
    add_ranges(settings);
    environment = environment_of(::environ, settings);
  }
  for (auto& item : loaded.diagnostics) {
    if (item.code == "E001" && !options.config.empty())
      item.note = "check the path that was given";  // by --config
  }
  if (loaded.failed() && loaded.plan.error_policy == config::on_error::abort) {
    say(loaded.text(config::consequence::not_started));
    return exit_gpumem_failed;
  }

  std::string const program = base::printable(options.command.front());
  if (loaded.failed()) say(loaded.text(config::consequence::passthrough));
  if (!options.quiet && !loaded.failed()) {
    say(base::format(
        "gpumem: running {} with {}\n", program,
        loaded.plan.path.empty() ? "the built-in configuration" : base::printable(loaded.plan.path)));
    if (options.uncached) say(uncached_text());
    if (options.uncached && loaded.plan.device.passthrough)
      base::log_line(base::log_level::warn,
                     "route.device is passthrough: each of them goes to the driver, which is slow");
  }
  if (!loaded.failed()) make_mark(settings);
  time_t const began = ::time(nullptr);
  child_result const child = run_and_wait(options.command, environment);
  bool const unseen = take_mark(settings);
  if (child.exec_error != 0) {
    base::log_line(base::log_level::error,
                   base::format("cannot run {}: {}", program, ::strerror(child.exec_error)));
    if (child.pid < 0) return exit_gpumem_failed;
    return child.exec_error == ENOENT ? exit_not_found : exit_not_executable;
  }
  report_what_is_left(child, settings.run_id, began, environment, loaded.plan);
  remove_stale(find_pages());
  if (!options.quiet) say(base::format("gpumem: {} {}\n", program, ending_of(child.status)));
  // It said itself what is wrong with its configuration.
  bool const refused = WIFEXITED(child.status) && WEXITSTATUS(child.status) == exit_bad_configuration;
  if (!options.quiet && unseen && !refused) say(why_unseen(options.command.front()));
  return exit_code_of(child.status);
}

}  // namespace gpumem::cli
