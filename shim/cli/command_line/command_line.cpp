// See command_line.hpp. Help has at most 80 columns: CLI11 does not break lines.
#include "shim/cli/command_line/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "config/text/suggest.hpp"

namespace gpumem::cli {
namespace {

constexpr char const* about =
    "RAPIDS RMM's memory resources for unmodified CUDA programs, with an honest\nreport at exit.";

bool has_value(CLI::App const& verb, std::string const& word) {
  CLI::Option const* const option = verb.get_option_no_throw(word);
  return option != nullptr && option->get_items_expected_max() > 0;
}

}  // namespace

command_line::command_line() : app(std::make_unique<CLI::App>(about, "gpumem")) {
  app->footer(
      "Exit code: 2 misuse, 3 standard output cannot be written; others with each verb\n"
      "Examples:\n  gpumem run -c chain.toml -- python3 train.py\n  gpumem report --last\n"
      "gpumem help VERB tells more");
  app->add_flag("-V,--version", version, "Print the versions and where the library is");
  add_run();
  add_check();
  add_report();
  add_export();
  for (CLI::App* verb : {run_verb, check_verb, report_verb, export_verb})
    verb->get_formatter()->column_width(26);
}

command_line::~command_line() = default;

void command_line::add_run() {
  run_verb = app->add_subcommand("run", "Run a program under gpumem, reported even when killed");
  run_verb->add_option("program", program_in_help_, "The program and its arguments")
      ->type_name("PROGRAM [ARGUMENTS...]");
  run_verb
      ->add_option("-c,--config", run.config, "Configuration\n(default: GPUMEM_CONFIG, or the built-in one)")
      ->type_name("FILE");
  run_verb
      ->add_option("-o,--output", run.text,
                   "Where the text report goes: stderr, stdout or -,\nnone, or a pattern as report.%e.%p.txt")
      ->type_name("TEXT");
  run_verb->add_option("--json", run.json, "The same report as JSON: as --output")->type_name("FILE");
  run_verb->add_option("--record", run.record, "Record each allocation and free: a pattern as --output")
      ->type_name("FILE");
  run_verb->add_flag("--phases", run.phases, "Report what was held in each of its NVTX ranges");
  run_verb->add_flag("--uncached", run.uncached, "Switch off the caches of PyTorch, JAX and TensorFlow");
  run_verb->add_flag("-q,--quiet", run.quiet, "No lines at start and end");
  run_verb->footer(
      "Exit code: the program's own; 128 + n for a signal; 125 gpumem failed,\n"
      "126 not executable, 127 not found\n"
      "Examples:\n  gpumem run ./solver input.dat\n"
      "  gpumem run -c chain.toml -o report.txt -- python3 train.py --epochs 3");
}

void command_line::add_check() {
  check_verb = app->add_subcommand("check", "Check a configuration and show what it resolves to");
  check_verb
      ->add_option("file,-c,--config", check.file,
                   "Configuration, - for standard input\n(default: GPUMEM_CONFIG, or the built-in one)")
      ->type_name("FILE");
  check_verb->add_flag("--strict", check.strict, "Exit code 1 when there are warnings or traps");
  check_verb->add_option("--device-memory", check.device_memory, "As on devices of this size, not those here")
      ->type_name("SIZE");
  check_verb
      ->add_option("--recommend", check.recommend,
                   "Instead: which chain a program should try, by its\nJSON report, state page or recording")
      ->type_name("FILE");
  check_verb->footer(
      "After -- a program: whether it can be intercepted; it is not run\n"
      "Exit code: 0 good, 1 warnings under --strict, 2 errors, or a program that\n"
      "cannot be intercepted\n"
      "Examples:\n  gpumem check chain.toml\n  gpumem check -c chain.toml -- ./solver\n"
      "  gpumem check --recommend report.json");
}

void command_line::add_report() {
  report_verb = app->add_subcommand("report", "Show the report of a live or ended process");
  report_verb->add_option("file", report.files, "State pages or JSON reports")->type_name("FILE");
  report_verb->add_option("--pid", report.pid, "Of the process with this pid, live or ended")->type_name("N");
  report_verb->add_flag("--last", report.last,
                        "Of the process that ended last without its own\nreport (default)");
  report_verb->add_flag("--list", report.list, "List all state pages");
  report_verb->add_flag("--text", text_, "As text (default)");
  report_verb->add_flag("--json", report.json, "As JSON");
  explain_ = report_verb->add_option("--explain", report.term, "Explain a term of the report, or all")
                 ->expected(0, 1)
                 ->type_name("[TERM]");
  report_verb->add_flag("--clean", report.clean, "Remove the state pages of all ended processes");
  report_verb->footer(
      "Exit code: 0 good, 2 unreadable or nothing there\n"
      "Examples:\n  gpumem report --last\n  gpumem report --explain pending");
}

void command_line::add_export() {
  export_verb = app->add_subcommand("export", "Write a recording in a form that others read");
  export_verb->add_option("recording", exporting.recording, "As gpumem run --record makes it")
      ->type_name("RECORDING");
  export_verb->add_option("--format", exporting.format, "rmm-csv: a line for each event, as RMM logs them")
      ->type_name("FORMAT");
  export_verb
      ->add_option("-o,--output", exporting.output,
                   "Where to, or none (default: standard output);\na name that is taken gets a number")
      ->type_name("FILE");
  export_verb->footer(
      "Exit code: 0 good, 1 a part of the recording is damaged, 2 unreadable,\n3 the output cannot be "
      "written\n"
      "Examples:\n  gpumem export --format rmm-csv -o events.csv train.gpumem");
}

// What follows the flags of `run` belongs to the program, whatever it looks like; so does what follows "--"
// of `check`.
void command_line::take_command(std::vector<std::string>& arguments) {
  bool const for_run = !arguments.empty() && arguments.front() == "run";
  if (!for_run && (arguments.empty() || arguments.front() != "check")) return;
  std::size_t at = 1;
  while (for_run && at < arguments.size() && arguments[at].starts_with('-') && arguments[at] != "--")
    at += has_value(*run_verb, arguments[at]) ? 2 : 1;
  if (!for_run)
    at = static_cast<std::size_t>(std::find(arguments.begin(), arguments.end(), "--") - arguments.begin());
  at = std::min(at, arguments.size());
  bool const separated = at < arguments.size() && arguments[at] == "--";
  std::vector<std::string> command(arguments.begin() + static_cast<long>(at + (separated ? 1 : 0)),
                                   arguments.end());
  arguments.resize(at);
  (for_run ? run.command : check.command) = std::move(command);
}

command_line::outcome command_line::misused(std::vector<std::string> const& arguments,
                                            std::string const& reason) {
  CLI::App* const verb = app->get_subcommands().empty() ? app.get() : app->get_subcommands().front();
  std::vector<std::string> known;
  for (CLI::Option const* option : verb->get_options()) {
    for (auto const& name : option->get_lnames()) known.push_back("--" + name);
  }
  if (verb == app.get()) {
    for (CLI::App const* sub : app->get_subcommands({})) known.push_back(sub->get_name());
  }
  problem = reason;
  for (auto const& word : arguments) {
    if (std::find(known.begin(), known.end(), word) != known.end() || word == verb->get_name()) continue;
    std::string const name = word.substr(0, word.find('='));
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string const hint =
        config::did_you_mean(name, std::vector<std::string_view>(known.begin(), known.end()));
    if (!hint.empty()) hints += "gpumem: \"" + word + "\": " + hint + "\n";
  }
  if (verb == check_verb) hints += "gpumem: a program stands after --: gpumem check -- ./program\n";
  hints += "gpumem" + (verb == app.get() ? "" : " " + verb->get_name()) + " --help shows what there is\n";
  return outcome::misused;
}

bool command_line::asks_for(CLI::App const* verb) const {
  return verb->parsed();
}

std::string command_line::help() const {
  return app->help();
}

int command_line::misused_code() const {
  return *run_verb ? exit_gpumem_failed : 2;
}

command_line::outcome command_line::parse(std::vector<std::string> arguments) {
  take_command(arguments);
  // "help" is what many try first: alone, or before a verb.
  if (!arguments.empty() && arguments.front() == "help") {
    arguments.erase(arguments.begin());
    auto const verbs = app->get_subcommands({});
    bool const unknown =
        !arguments.empty() && std::none_of(verbs.begin(), verbs.end(), [&](CLI::App const* verb) {
          return verb->get_name() == arguments.front();
        });
    if (unknown) return misused(arguments, "there is no verb \"" + arguments.front() + "\"");
    arguments.emplace_back("--help");
  }
  try {
    app->parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (CLI::CallForHelp const&) {
    return outcome::help;
  } catch (CLI::ParseError const& error) {
    return misused(arguments, error.what());
  }
  if (version) return outcome::good;
  if (*run_verb && run.command.empty()) return misused({}, "run needs a program");
  if (*report_verb) {
    report.explain = explain_->count() != 0;
    if (text_ && report.json) return misused({}, "--text and --json exclude each other");
    if (report.pid < 0) return misused({}, "--pid needs a pid, as --list shows them");
    std::size_t given = 0;
    for (CLI::Option const* option : report_verb->get_options()) given += option->count() != 0 ? 1 : 0;
    if (report.clean && given > 1)
      return misused({}, "--clean stands alone: it is for the whole state folder");
  }
  if (*check_verb && !check.recommend.empty() &&
      (!check.file.empty() || check.strict || !check.command.empty()))
    return misused(
        {},
        "--recommend is of a report or recording: no configuration, no --strict and no program beside it");
  if (*export_verb && exporting.recording.empty()) return misused({}, "export needs a recording");
  if (*export_verb && exporting.format != "rmm-csv")
    return misused({}, exporting.format.empty()
                           ? "export needs a format: --format rmm-csv"
                           : "there is no format \"" + exporting.format + "\": rmm-csv is one");
  if (!*run_verb && !*check_verb && !*report_verb && !*export_verb)
    return misused(arguments, "which verb? run, check, report or export");
  return outcome::good;
}

}  // namespace gpumem::cli
