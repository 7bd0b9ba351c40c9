// See interception.hpp. What LD_PRELOAD needs: a dynamic loader, of glibc, for the machine of the preload
// library, and a process that is not in secure execution (setuid, capabilities), where ld.so drops the
// variable.
#include "shim/cli/programs/interception.hpp"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "shim/cli/programs/elf_file.hpp"
#include "shim/cli/programs/library_search.hpp"

namespace gpumem::cli {
namespace {

constexpr int most_scripts = 4;  // as the kernel

std::string variable(char const* name) {
  char const* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_program(std::string const& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

std::string find_program(std::string const& name, std::string const& search_path) {
  if (name.find('/') != name.npos) return name;
  std::istringstream folders(search_path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string const path = (folder.empty() ? "." : folder) + "/" + name;
    if (is_program(path)) return path;
  }
  return {};
}

bool is_file(std::string const& name, std::string_view stem) noexcept {
  std::string_view const file = std::string_view(name).substr(name.rfind('/') + 1);
  return file.starts_with(stem);
}

// A runtime inside of a file looks the driver up by name; its own name does not survive stripping.
bool has_static_runtime(elf_file const& file) noexcept {
  return file.holds("libcuda.so.1") && file.holds("cuGetProcAddress");
}

class inspection {
 public:
  inspection(std::string const& program, surroundings const& around) : around_(around) {
    std::string const path = find_program(program, around.search_path);
    if (path.empty())
      refuse(program + " is in no folder of PATH");
    else
      look_at(path);
    if (!result_.problems.empty()) result_.result = verdict::no;
  }

  interception take() { return std::move(result_); }

 private:
  void refuse(std::string text) { result_.problems.push_back(std::move(text)); }
  void say(std::string text) { result_.facts.push_back(std::move(text)); }

  void look_at(std::string path) {
    for (int i = 0; i < most_scripts; ++i) {
      std::string const next = script(path);
      if (next.empty()) break;
      path = next;
    }
    result_.path = path;
    if (result_.problems.empty()) file(path);
    neighbours();
  }

  // The program that runs a script; empty: it is none.
  std::string script(std::string const& path) {
    if (!is_program(path)) {
      refuse(::access(path.c_str(), F_OK) != 0 ? path + " does not exist"
                                               : path + " is no file that can be executed");
      return {};
    }
    elf_file const opened(path);
    if (!opened.is_elf && opened.script_line().empty() && opened.is_text()) {
      say("a script without #!, which a shell, and gpumem run, give to /bin/sh");
      return "/bin/sh";
    }
    std::istringstream line(opened.script_line());
    std::string interpreter, argument;
    line >> interpreter;
    if (interpreter.empty()) return {};
    std::string by = interpreter;
    if (is_file(interpreter, "env")) {
      // env's own options and assignments stand before the program's name.
      while (line >> argument && (argument.starts_with('-') || argument.find('=') != argument.npos)) {
      }
      by = find_program(argument, around_.search_path);
      if (by.empty()) {
        refuse(path + " is a script for " + (argument.empty() ? interpreter : argument) +
               ", which is in no folder of PATH");
        return {};
      }
    }
    say("a script, run by " + by);
    return by;
  }

  void file(std::string const& path) {
    elf_file const elf(path);
    if (!elf.is_elf) {
      refuse(path + " is neither an ELF file nor a script");
      return;
    }
    elf_file const self("/proc/self/exe");
    if (elf.machine != self.machine || elf.wide != self.wide) {
      refuse(std::string(elf.wide ? "a 64-bit" : "a 32-bit") + " program for " + machine_name(elf.machine) +
             "; this libgpumem.so is for 64-bit " + machine_name(self.machine));
      return;
    }
    if (!elf.whole) {
      refuse(path + " is damaged: its program headers cannot be read");
      return;
    }
    if (elf.interpreter.empty()) {
      refuse(
          "statically linked: there is no loader that could load libgpumem.so; link it dynamically "
          "(libcudart may stay static)");
      return;
    }
    if (is_file(elf.interpreter, "ld-musl")) {
      refuse("linked to musl (" + elf.interpreter + "); libgpumem.so needs glibc");
      return;
    }
    secure_execution(path);
    if (elf.no_default_folders)
      say("does not look for its libraries in the default folders; gpumem is loaded by its path");
    calls(path, elf);
  }

  void secure_execution(std::string const& path) {
    struct stat about {};
    if (::stat(path.c_str(), &about) != 0) return;
    bool const user = (about.st_mode & S_ISUID) != 0 && about.st_uid != around_.user;
    bool const group =
        (about.st_mode & S_ISGID) != 0 && (about.st_mode & S_IXGRP) != 0 && about.st_gid != around_.group;
    if (user || group) {
      refuse(
          std::string(user ? "setuid" : "setgid") +
          ": the loader ignores LD_PRELOAD with a path in it; run a copy without that bit, or as its owner");
    }
    if (::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0 && around_.user != 0) {
      refuse(
          "has file capabilities: the loader ignores LD_PRELOAD with a path in it; run a copy without them");
    }
  }

  void calls(std::string const& path, elf_file const& elf) {
    std::vector<std::string> shared, inside, driver, missing;
    if (has_static_runtime(elf)) inside.push_back("the program");
    for (auto const& library : needed_libraries(path, around_.library_path)) {
      bool const is_driver = is_file(library.name, "libcuda.so");
      if (library.path.empty()) missing.push_back(library.name);
      if (is_file(library.name, "libcudart.so")) {
        shared.push_back(library.path.empty() ? library.name : library.path);
      } else if (is_driver) {
        driver.push_back(library.path.empty() ? library.name : library.path);
      } else if (!library.path.empty() && has_static_runtime(elf_file(library.path))) {
        inside.push_back(library.name);
      }
    }
    for (auto const& name : shared) say("shared CUDA runtime: " + name);
    for (auto const& name : inside)
      say("static CUDA runtime, or the driver looked up by name, in " + name + " (by its strings)");
    for (auto const& name : driver) {
      say("linked to the driver: " + name);
      if (name.find("/stubs/") != name.npos)
        refuse(
            name +
            " is a stub for linking, not a driver: take its folder out of the run path and LD_LIBRARY_PATH");
    }
    for (auto const& name : missing) say("not found here: " + name);
    bool const any = !shared.empty() || !inside.empty() || !driver.empty();
    result_.result = any ? verdict::yes : verdict::unknown;
    if (!any) say("no CUDA in it or in what it is linked to; what it loads later is met when it is loaded");
  }

  void neighbours() {
    if (!around_.preloads.empty())
      say("LD_PRELOAD is set: " + around_.preloads + " is loaded behind libgpumem.so");
    if (around_.system_preloads) say("/etc/ld.so.preload loads libraries into every program");
  }

  surroundings const& around_;
  interception result_;
};

}  // namespace

surroundings of_this_process() {
  return {variable("PATH"),
          variable("LD_LIBRARY_PATH"),
          variable("LD_PRELOAD"),
          ::geteuid(),
          ::getegid(),
          ::access("/etc/ld.so.preload", R_OK) == 0};
}

interception inspect(std::string const& program, surroundings const& around) {
  return inspection(program, around).take();
}

}  // namespace gpumem::cli
