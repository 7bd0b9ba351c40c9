// The program `gpumem`: parses the command line and hands it to its verb. The work is in the verbs' own
// files.
#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "core/base/log/line_writer.hpp"
#include "core/base/log/log.hpp"
#include "core/base/text/printable.hpp"
#include "shim/cli/command_line/command_line.hpp"
#include "shim/cli/output.hpp"
#include "shim/cli/programs/preload.hpp"

namespace {

using namespace gpumem;

int print_version() {
  cli::library const found = cli::find_library();
  std::string const where = base::printable(found.error.empty() ? found.path : found.error);
  return cli::print("gpumem " GPUMEM_VERSION "\nlibrary " + where + "\n") ? 0 : cli::exit_not_written;
}

// A stream that came closed would be the next file that anything here opens. What takes its file_position
// takes no output, and ends with this program: the one that `run` starts has the stream closed, as it was.
void keep_closed_streams_free() {
  for (int const stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  }
}

}  // namespace

int main(int argc, char** argv) {
  keep_closed_streams_free();
  cli::command_line line;
  switch (line.parse(std::vector<std::string>(argv + 1, argv + argc))) {
    case cli::command_line::outcome::help:
      return cli::print(line.help()) ? 0 : cli::exit_not_written;
    case cli::command_line::outcome::misused:
      base::log_line(base::log_level::error, line.problem);
      base::write_all(STDERR_FILENO, base::printable_lines(line.hints));
      return line.misused_code();
    case cli::command_line::outcome::good:
      break;
  }
  if (line.version) return print_version();
  if (line.asks_for(line.run_verb)) return cli::run(line.run);
  if (line.asks_for(line.check_verb)) return cli::check(line.check);
  if (line.asks_for(line.export_verb)) return cli::write_export(line.exporting);
  return cli::report(line.report);
}
