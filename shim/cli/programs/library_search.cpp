// See library_search.hpp. ld.so.cache is not read: it says what the folders of ld.so.conf hold.
#include "shim/cli/programs/library_search.hpp"

#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "shim/cli/programs/elf_file.hpp"

namespace gpumem::cli {
namespace {

constexpr int deepest_include = 4;
constexpr std::size_t most_libraries = 4096;

std::string folder_of(std::string const& path) {
  auto const slash = path.rfind('/');
  return slash == path.npos ? "." : path.substr(0, slash);
}

std::vector<std::string> split(std::string const& list, std::string const& origin) {
  std::vector<std::string> result;
  for (std::size_t at = 0; at < list.size();) {
    std::size_t const end = std::min(list.find(':', at), list.size());
    std::string part = list.substr(at, end - at);
    for (std::string const token : {"${ORIGIN}", "$ORIGIN"}) {
      if (auto const found = part.find(token); found != part.npos) part.replace(found, token.size(), origin);
    }
    if (!part.empty()) result.push_back(part);
    at = end + 1;
  }
  return result;
}

void read_conf(std::string const& file, int depth, std::vector<std::string>& folders) {
  std::ifstream in(file);
  for (std::string line; depth > 0 && std::getline(in, line);) {
    line.erase(std::min(line.find('#'), line.size()));
    line.erase(line.find_last_not_of(" \t") + 1);
    line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.starts_with("include ")) {
      glob_t found{};
      if (::glob(line.substr(8).c_str(), 0, nullptr, &found) == 0) {
        for (std::size_t i = 0; i < found.gl_pathc; ++i) read_conf(found.gl_pathv[i], depth - 1, folders);
      }
      ::globfree(&found);
    } else if (line.starts_with('/')) {
      folders.push_back(line);
    }
  }
}

std::vector<std::string> system_folders() {
  std::vector<std::string> folders;
  read_conf("/etc/ld.so.conf", deepest_include, folders);
  for (char const* folder : {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
                             "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}) {
    folders.emplace_back(folder);
  }
  return folders;
}

struct context {
  elf_file const& program;
  std::string program_folder;
  std::vector<std::string> from_environment;
  std::vector<std::string> system;
};

std::string find(std::string const& name, elf_file const& user, std::string const& user_folder,
                 context const& in) {
  auto const usable = [&](std::string const& path) {
    if (::access(path.c_str(), R_OK) != 0) return false;
    elf_file const file(path);
    return file.is_elf && file.machine == in.program.machine && file.wide == in.program.wide;
  };
  if (name.find('/') != name.npos) return usable(name) ? name : "";
  std::vector<std::string> folders;
  auto const add = [&folders](std::vector<std::string> const& more) {
    folders.insert(folders.end(), more.begin(), more.end());
  };
  if (user.runpath.empty()) {
    add(split(user.rpath, user_folder));
    if (in.program.runpath.empty()) add(split(in.program.rpath, in.program_folder));
  }
  add(in.from_environment);
  add(split(user.runpath, user_folder));
  if (!user.no_default_folders) add(in.system);
  for (auto const& folder : folders) {
    if (usable(folder + "/" + name)) return folder + "/" + name;
  }
  return {};
}

}  // namespace

std::vector<found_library> needed_libraries(std::string const& path, std::string const& library_path) {
  elf_file const program(path);
  context const in{program, folder_of(path), split(library_path, folder_of(path)), system_folders()};
  std::vector<found_library> result;
  auto const add = [&](elf_file const& user, std::string const& user_path) {
    for (auto const& name : user.needed) {
      bool const known =
          std::any_of(result.begin(), result.end(), [&](found_library const& l) { return l.name == name; });
      if (!known) result.push_back({name, find(name, user, folder_of(user_path), in)});
    }
  };
  add(program, path);
  for (std::size_t i = 0; i < result.size() && i < most_libraries; ++i) {
    if (result[i].path.empty()) continue;
    elf_file const library(result[i].path);
    add(library, std::string(result[i].path));
  }
  return result;
}

}  // namespace gpumem::cli
