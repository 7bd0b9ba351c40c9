// See source_lines.hpp.
#include "shim/cli/source_lines.hpp"

#include <cxxabi.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/format.hpp"
#include "core/report/text_format.hpp"

extern char** environ;

namespace gpumem::cli {
namespace {

constexpr std::size_t most_addresses = 512;  // of one run: the command line is limited

// Standard output of a command, empty when it cannot be run.
std::string output_of(std::vector<std::string> const& command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (auto const& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = -1;
  int const error = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; error == 0 && (got = ::read(ends[0], buffer, sizeof buffer)) != 0;) {
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  ::close(ends[0]);
  int status = 0;
  if (error == 0) ::waitpid(child, &status, 0);
  return text;
}

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string demangled(std::string const& symbol) {
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> const text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return text == nullptr ? symbol : text.get();
}

// Two lines for each address, function and place. Of binutils' addr2line some releases (2.40) name the wrong
// file for code from a header, so LLVM's is asked first.
std::vector<std::string> places_of(std::string const& library, std::vector<std::string> const& addresses) {
  for (std::vector<std::string> command :
       {std::vector<std::string>{"llvm-symbolizer", "--output-style=GNU", "--no-inlines"},
        std::vector<std::string>{"addr2line"}}) {
    command.insert(command.end(), {"-C", "-f", "-e", library});
    command.insert(command.end(), addresses.begin(), addresses.end());
    auto lines = lines_of(output_of(command));
    if (lines.size() == 2 * addresses.size()) return lines;
  }
  return {};
}

// "function" and "/path/file.cpp:31 (discriminator 2)"; "??" for what is not known.
void take(report::document& frame, std::string const& function, std::string const& place) {
  // A name from the table of symbols stands: addr2line names one of several functions that share a line.
  report::document const& known = report::field(frame, "symbol");
  if (known.is_string()) {
    frame["symbol"] = demangled(known.get<std::string>());
  } else if (!function.empty() && !function.starts_with("??")) {
    frame["symbol"] = function;
  }
  std::size_t const colon = place.rfind(':');
  if (colon == place.npos || place.starts_with("??")) return;
  std::uint64_t const line = std::strtoull(place.c_str() + colon + 1, nullptr, 10);
  if (line == 0) return;
  frame["file"] = place.substr(0, colon);
  frame["line"] = line;
}

}  // namespace

void add_source_lines(report::document& content) {
  if (!content.is_object() || !content.contains("call_sites") || !content["call_sites"].is_array()) return;
  std::map<std::string, std::vector<report::document*>> by_library;
  for (auto& site : content["call_sites"]) {
    if (!site.is_object() || !site.contains("frames") || !site["frames"].is_array()) continue;
    for (auto& frame : site["frames"]) {
      if (!frame.is_object()) continue;
      report::document const& library = report::field(frame, "library");
      if (library.is_string() && report::number(frame, "address"))
        by_library[library.get<std::string>()].push_back(&frame);
    }
  }
  for (auto const& [library, frames] : by_library) {
    for (std::size_t first = 0; first < frames.size(); first += most_addresses) {
      std::size_t const count = std::min(most_addresses, frames.size() - first);
      std::vector<std::string> addresses;
      for (std::size_t i = 0; i < count; ++i)
        addresses.push_back(base::format("{:#x}", report::number_or_zero(*frames[first + i], "address")));
      auto const lines = places_of(library, addresses);
      if (lines.size() != 2 * count) return;  // neither is installed, or not as we know it
      for (std::size_t i = 0; i < count; ++i) take(*frames[first + i], lines[2 * i], lines[2 * i + 1]);
    }
  }
}

}  // namespace gpumem::cli
