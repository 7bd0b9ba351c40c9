// See check.hpp.
#include "shim/cli/check.hpp"

#include <unistd.h>

#include "config/load.hpp"
#include "core/base/line_writer.hpp"
#include "shim/cli/chain_tree.hpp"

namespace gpumem::cli {

int check(check_options const& options) {
  config::load_result const loaded = options.file.empty() ? config::load(config::read_environment(::environ))
                                                          : config::load_file(options.file);
  base::write_all(STDERR_FILENO, loaded.text(config::consequence::none));
  if (loaded.failed()) return 2;
  std::string const name = loaded.plan.path.empty() ? "built-in configuration" : loaded.plan.path;
  std::string text = name + (loaded.diagnostics.empty() ? ": good\n" : ": good, with warnings\n");
  text += chain_tree(loaded.plan);
  base::write_all(STDOUT_FILENO, text);
  return options.strict && !loaded.diagnostics.empty() ? 1 : 0;
}

}  // namespace gpumem::cli
