// The program `gpumem`: the table of verbs, their flags and help. The work is in the verbs' own files.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "config/suggest.hpp"
#include "core/base/line_writer.hpp"
#include "shim/cli/check.hpp"
#include "shim/cli/preload.hpp"
#include "shim/cli/report.hpp"
#include "shim/cli/run.hpp"

namespace {

using namespace gpumem;

constexpr char const* about =
    "RAPIDS RMM's memory resources for unmodified CUDA programs, with an honest report at exit.";

void say(std::string const& text) {
  base::write_all(STDERR_FILENO, text);
}

// What follows the flags of `run` belongs to the program, whatever it looks like; so does what follows "--"
// of `check`.
std::vector<std::string> take_command(std::vector<std::string>& arguments) {
  bool const run = !arguments.empty() && arguments.front() == "run";
  if (!run && (arguments.empty() || arguments.front() != "check")) return {};
  std::size_t at = 1;
  while (run && at < arguments.size() && arguments[at].starts_with('-') && arguments[at] != "--") {
    bool const has_value = arguments[at] == "-c" || arguments[at] == "--config";
    at += has_value ? 2 : 1;
  }
  if (!run)
    at = static_cast<std::size_t>(std::find(arguments.begin(), arguments.end(), "--") - arguments.begin());
  at = std::min(at, arguments.size());
  bool const separated = at < arguments.size() && arguments[at] == "--";
  std::vector<std::string> command(arguments.begin() + static_cast<long>(at + (separated ? 1 : 0)),
                                   arguments.end());
  arguments.resize(at);
  return command;
}

int usage_error(CLI::App& app, std::vector<std::string> const& arguments, std::string const& reason) {
  CLI::App* const verb = app.get_subcommands().empty() ? &app : app.get_subcommands().front();
  std::vector<std::string> known;
  for (CLI::Option const* option : verb->get_options()) {
    for (auto const& name : option->get_lnames()) known.push_back("--" + name);
  }
  if (verb == &app) {
    for (CLI::App const* sub : app.get_subcommands({})) known.push_back(sub->get_name());
  }
  std::string text = "gpumem: error: " + reason + "\n";
  for (auto const& word : arguments) {
    if (std::find(known.begin(), known.end(), word) != known.end() || word == verb->get_name()) continue;
    std::string const hint =
        config::did_you_mean(word, std::vector<std::string_view>(known.begin(), known.end()));
    if (!hint.empty()) text += "gpumem: \"" + word + "\": " + hint + "\n";
  }
  say(text + "gpumem" + (verb == &app ? "" : " " + verb->get_name()) + " --help shows what there is\n");
  return verb->get_name() == "run" ? cli::exit_gpumem_failed : 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  cli::run_options run_with;
  cli::check_options check_with;
  cli::report_options report_with;
  std::vector<std::string> const command = take_command(arguments);
  run_with.command = command;
  check_with.command = command;

  CLI::App app(about, "gpumem");
  app.footer("Examples:\n  gpumem run -c chain.toml -- python3 train.py\n  gpumem report --last");
  bool version = false;
  std::string program_in_help;  // never filled: take_command has it
  app.add_flag("--version", version, "Print the versions and where the library is");

  CLI::App* const run = app.add_subcommand("run", "Run a program under gpumem; report even if it is killed");
  run->add_option("program", program_in_help, "The program and its arguments")
      ->type_name("PROGRAM [ARGUMENTS...]");
  run->add_option("-c,--config", run_with.config,
                  "Configuration (default: GPUMEM_CONFIG, or the built-in one)")
      ->type_name("FILE");
  run->add_flag("-q,--quiet", run_with.quiet, "No lines at start and end");
  run->footer(
      "Exit code: the program's own; 128 + n for a signal; 125 gpumem failed, 126 not executable, 127 not "
      "found\n"
      "Examples:\n  gpumem run ./solver input.dat\n  gpumem run -c chain.toml -- python3 train.py --epochs "
      "3");

  CLI::App* const check = app.add_subcommand("check", "Check a configuration and show what it resolves to");
  check
      ->add_option("file,-c,--config", check_with.file,
                   "Configuration (default: GPUMEM_CONFIG, or the built-in one)")
      ->type_name("FILE");
  check->add_flag("--strict", check_with.strict, "Exit code 1 when there are warnings or traps");
  check->add_option("--device-memory", check_with.device_memory, "As on devices of this size, not those here")
      ->type_name("SIZE");
  check->footer(
      "After -- a program: whether it can be intercepted; it is not run\n"
      "Exit code: 0 good, 1 warnings under --strict, 2 errors, or a program that cannot be intercepted\n"
      "Examples:\n  gpumem check chain.toml\n  gpumem check -c chain.toml -- ./solver");

  CLI::App* const report = app.add_subcommand("report", "Show the report of a live or ended process");
  report->add_option("file", report_with.files, "State pages or JSON reports")->type_name("FILE");
  report->add_option("--pid", report_with.pid, "Of the process with this pid, live or ended")->type_name("N");
  report->add_flag("--last", report_with.last,
                   "Of the process that ended last without its own report (default)");
  report->add_flag("--list", report_with.list, "List all state pages");
  bool text = false;
  report->add_flag("--text", text, "As text (default)");
  report->add_flag("--json", report_with.json, "As JSON");
  auto* const explain =
      report->add_option("--explain", report_with.term, "Explain a term of the report, or all")
          ->expected(0, 1)
          ->type_name("[TERM]");
  report->footer(
      "Exit code: 0 good, 2 unreadable or nothing there\n"
      "Examples:\n  gpumem report --last\n  gpumem report --explain pending");
  for (CLI::App* verb : {run, check, report}) verb->get_formatter()->column_width(26);

  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (CLI::CallForHelp const&) {
    base::write_all(STDOUT_FILENO, app.help());
    return 0;
  } catch (CLI::ParseError const& error) {
    return usage_error(app, arguments, error.what());
  }

  if (version) {
    cli::library const found = cli::find_library();
    base::write_all(STDOUT_FILENO, "gpumem " GPUMEM_VERSION "\nlibrary " +
                                       (found.error.empty() ? found.path : found.error) + "\n");
    return 0;
  }
  if (*run) {
    if (run_with.command.empty()) return usage_error(app, {}, "run needs a program");
    return cli::run(run_with);
  }
  if (*check) return cli::check(check_with);
  if (*report) {
    report_with.explain = explain->count() != 0;
    if (text && report_with.json) return usage_error(app, {}, "--text and --json exclude each other");
    if (report_with.pid < 0) return usage_error(app, {}, "--pid needs a pid, as --list shows them");
    return cli::report(report_with);
  }
  return usage_error(app, arguments, "which verb? run, check or report");
}
