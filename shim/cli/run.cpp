// See run.hpp. A process that ends by exit writes its own report and removes its page; what is left in the
// state folder under this run's id belongs to processes that were killed, crashed, or replaced themselves by
// exec.
#include "shim/cli/run.hpp"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "config/load.hpp"
#include "core/base/clock.hpp"
#include "core/base/format.hpp"
#include "core/base/line_writer.hpp"
#include "core/report/write_reports.hpp"
#include "core/stats/page_file.hpp"
#include "shim/cli/pages.hpp"
#include "shim/cli/preload.hpp"
#include "shim/cli/source_lines.hpp"
#include "shim/cli/wait_for_child.hpp"

namespace gpumem::cli {
namespace {

void say(std::string const& line) {
  base::write_all(STDERR_FILENO, line);
}

int fail(std::string const& reason) {
  say("gpumem: error: " + reason + "\n");
  return exit_gpumem_failed;
}

std::vector<char const*> pointers_to(std::vector<std::string> const& items) {
  std::vector<char const*> pointers;
  for (auto const& item : items) pointers.push_back(item.c_str());
  pointers.push_back(nullptr);
  return pointers;
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

void report_what_is_left(child_result const& child, std::string const& run_id, config::plan const& plan) {
  for (found_page const& page : find_pages().pages) {
    stats::snapshot_result const taken = stats::read_snapshot(page.path);
    if (!taken.error.empty() || taken.value.run_id != run_id) continue;
    bool const ended_by_exit = taken.value.closed && taken.value.end.kind == stats::end_kind::exit;
    if (ended_by_exit || (!taken.value.closed && page.process_lives())) {
      say(base::format("gpumem: pid {} {}: gpumem report --pid {}\n", page.pid,
                       ended_by_exit ? "could not write all of its report" : "still runs", page.pid));
      continue;
    }
    report::write_options options;
    options.text = plan.report_text;
    options.json = plan.report_json;
    options.document.written_by = "gpumem run";
    options.document.end = end_of(child, taken.value);
    options.document.add_lines = add_source_lines;
    if (report::write_reports(taken.value, options)) ::unlink(page.path.c_str());
  }
}

}  // namespace

int run(run_options const& options) {
  library const found = find_library();
  if (!found.error.empty()) return fail(found.error);
  run_settings settings{
      found.path, {}, base::format("{}-{:x}", ::getpid(), base::now_ns()), usable_state_directory()};
  if (!options.config.empty()) {
    char* const real = ::realpath(options.config.c_str(), nullptr);  // the program may change its folder
    settings.config = real == nullptr ? options.config : real;
    std::free(real);
  }
  if (!settings.state_directory.empty()) ::setenv("GPUMEM_STATE_DIR", settings.state_directory.c_str(), 1);
  std::vector<std::string> const environment = environment_of(::environ, settings);
  config::load_result const loaded = config::load(config::read_environment(pointers_to(environment).data()));
  if (loaded.failed() && loaded.plan.error_policy == config::on_error::abort) {
    say(loaded.text(config::consequence::not_started));
    return exit_gpumem_failed;
  }

  std::string const& program = options.command.front();
  if (!options.quiet) {
    say(base::format("gpumem: running {} with {}\n", program,
                     loaded.plan.path.empty() ? "the built-in configuration" : loaded.plan.path));
  }
  child_result const child = run_and_wait(options.command, environment);
  if (child.exec_error != 0) {
    say(base::format("gpumem: error: cannot run {}: {}\n", program, ::strerror(child.exec_error)));
    if (child.pid < 0) return exit_gpumem_failed;
    return child.exec_error == ENOENT ? exit_not_found : exit_not_executable;
  }
  report_what_is_left(child, settings.run_id, loaded.plan);
  if (!options.quiet) say(base::format("gpumem: {} {}\n", program, ending_of(child.status)));
  return exit_code_of(child.status);
}

}  // namespace gpumem::cli
