// The command line of `gpumem` as data: verbs, flags, their texts, and where their values go. Made by main,
// which parses with it; man pages and completions are made from the same `app`, so that nothing is said
// twice. One thread. Only parses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shim/cli/check/check.hpp"
#include "shim/cli/export/export.hpp"
#include "shim/cli/report/report.hpp"
#include "shim/cli/run/run.hpp"

namespace CLI {  // its header takes seconds to compile
class App;
class Option;
}  // namespace CLI

namespace gpumem::cli {

class command_line {
 public:
  command_line();
  ~command_line();
  command_line(command_line const&) = delete;
  command_line& operator=(command_line const&) = delete;

  std::unique_ptr<CLI::App> const app;
  CLI::App *run_verb, *check_verb, *report_verb, *export_verb;
  bool version = false;
  run_options run;
  check_options check;
  report_options report;
  export_options exporting;

  enum class outcome { good, help, misused };
  // The arguments without the program's name. When misused, `problem` and the lines of `hints` are for
  // people.
  outcome parse(std::vector<std::string> arguments);
  std::string problem, hints;
  bool asks_for(CLI::App const* verb) const;
  std::string help() const;  // of the verb that was asked for, or of all
  int misused_code() const;  // of the verb that was asked for

 private:
  void add_run();
  void add_check();
  void add_report();
  void add_export();
  void take_command(std::vector<std::string>& arguments);
  outcome misused(std::vector<std::string> const& arguments, std::string const& reason);

  bool text_ = false;
  CLI::Option* explain_ = nullptr;
  std::string program_in_help_;  // never filled: take_command has it
};

}  // namespace gpumem::cli
