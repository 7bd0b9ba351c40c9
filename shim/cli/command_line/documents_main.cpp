// Writes the man pages and completions into a folder: gpumem_documents FOLDER. Run by the build on one
// thread; neither installed nor packaged.
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <string>

#include "shim/cli/command_line/documents.hpp"

namespace {

bool write(std::string const& path, std::string const& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) std::cerr << "gpumem_documents: error: " << path << " could not be written\n";
  return bool(file);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace gpumem;
  if (argc != 2) {
    std::cerr << "gpumem_documents: error: one folder is wanted\n";
    return 2;
  }
  std::string const folder = std::string(argv[1]) + "/";
  cli::command_line const line;
  bool good = write(folder + "gpumem.1", cli::man_page(line, nullptr)) &&
              write(folder + "gpumem.bash", cli::bash_completion(line)) &&
              write(folder + "_gpumem", cli::zsh_completion(line)) &&
              write(folder + "gpumem.fish", cli::fish_completion(line));
  for (CLI::App const* verb : line.app->get_subcommands(nullptr))
    good = good && write(folder + "gpumem-" + verb->get_name() + ".1", cli::man_page(line, verb));
  return good ? 0 : 1;
}
