// See source_lines.hpp.
#include "shim/cli/report/source_lines.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/text/format.hpp"
#include "core/report/document.hpp"
#include "core/report/fields.hpp"
#include "core/report/names/demangle.hpp"

extern char** environ;

namespace gpumem::cli {
namespace {

constexpr std::size_t most_addresses = 512;  // of one run: the command line is limited

constexpr std::uint64_t patience_ns = 10'000'000'000;  // for all runs: who waits for a report waits for them
constexpr std::size_t most_output = 4u << 20;          // two lines for each address

int left_until(std::uint64_t deadline) noexcept {
  std::uint64_t const now = base::now_ns();
  return now >= deadline ? 0 : static_cast<int>((deadline - now) / 1'000'000) + 1;
}

// What comes out of the pipe until its end; empty if that takes too long or is too much.
std::string read_until_end(int pipe, std::uint64_t deadline) {
  std::string text;
  char buffer[4096];
  for (;;) {
    pollfd wait{pipe, POLLIN, 0};
    int const ready = ::poll(&wait, 1, left_until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    ssize_t const got = ready <= 0 ? -1 : ::read(pipe, buffer, sizeof buffer);
    if (got < 0 && ready > 0 && errno == EINTR) continue;
    if (got == 0) return text;
    if (got < 0 || text.size() > most_output) return {};
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

// Standard output of a command, empty when it cannot be run or does not end.
std::string output_of(std::vector<std::string> const& command, std::uint64_t deadline) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (auto const& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = -1;
  int const error = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string const text = error == 0 ? read_until_end(ends[0], deadline) : std::string();
  ::close(ends[0]);
  if (error == 0) {
    if (text.empty()) ::kill(child, SIGKILL);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  return text;
}

// A page or a report names it: only a plain file with a full path is worth asking about.
bool is_library(std::string const& path) {
  struct stat about {};
  return path.starts_with('/') && ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
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

// Two lines for each address, function and place. Of binutils' addr2line some releases (2.40) name the wrong
// file for code from a header, so LLVM's is asked first.
std::vector<std::string> places_of(std::string const& library, std::vector<std::string> const& addresses,
                                   std::uint64_t deadline) {
  for (std::vector<std::string> command :
       {std::vector<std::string>{"llvm-symbolizer", "--output-style=GNU", "--no-inlines"},
        std::vector<std::string>{"addr2line"}}) {
    command.insert(command.end(), {"-C", "-f", "-e", library});
    command.insert(command.end(), addresses.begin(), addresses.end());
    auto lines = lines_of(output_of(command, deadline));
    if (lines.size() == 2 * addresses.size()) return lines;
  }
  return {};
}

// "function" and "/path/file.cpp:31 (discriminator 2)"; "??" for what is not known.
void take(report::document& frame, std::string const& function, std::string const& place) {
  // A name from the table of symbols stands: addr2line names one of several functions that share a line.
  if (!report::field(frame, "symbol").is_string() && !function.empty() && !function.starts_with("??"))
    frame["symbol"] = function;
  std::size_t const colon = place.rfind(':');
  if (colon == place.npos || place.starts_with("??")) return;
  std::uint64_t const line = std::strtoull(place.c_str() + colon + 1, nullptr, 10);
  if (line == 0) return;
  frame["file"] = place.substr(0, colon);
  frame["line"] = line;
}

void collect_frames(report::document& sites,
                    std::map<std::string, std::vector<report::document*>>& by_library) {
  if (!sites.is_array()) return;
  for (auto& site : sites) {
    if (!site.is_object() || !site.contains("frames") || !site["frames"].is_array()) continue;
    for (auto& frame : site["frames"]) {
      if (!frame.is_object()) continue;
      report::document const& symbol = report::field(frame, "symbol");
      if (symbol.is_string()) frame["symbol"] = report::demangled(symbol.get<std::string>());
      report::document const& library = report::field(frame, "library");
      if (library.is_string() && report::number(frame, "address"))
        by_library[library.get<std::string>()].push_back(&frame);
    }
  }
}

}  // namespace

void add_source_lines(report::document& content) {
  std::map<std::string, std::vector<report::document*>> by_library;
  if (!content.is_object()) return;
  if (content.contains("call_sites")) collect_frames(content["call_sites"], by_library);
  if (content.contains("samples") && content["samples"].is_object() && content["samples"].contains("sites"))
    collect_frames(content["samples"]["sites"], by_library);
  std::uint64_t const deadline = base::now_ns() + patience_ns;
  for (auto const& [library, frames] : by_library) {
    if (!is_library(library)) continue;
    for (std::size_t first = 0; first < frames.size(); first += most_addresses) {
      std::size_t const count = std::min(most_addresses, frames.size() - first);
      std::vector<std::string> addresses;
      for (std::size_t i = 0; i < count; ++i)
        addresses.push_back(base::format("{:#x}", report::number_or_zero(*frames[first + i], "address")));
      auto const lines = places_of(library, addresses, deadline);
      if (lines.size() != 2 * count) return;  // neither is installed, or not as we know it
      for (std::size_t i = 0; i < count; ++i) take(*frames[first + i], lines[2 * i], lines[2 * i + 1]);
    }
  }
}

}  // namespace gpumem::cli
