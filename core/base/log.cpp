// See log.hpp. Not spdlog, of which only the levels were of use here: its formatters are a fifth of what the
// loader would relocate in each process that is preloaded, with CUDA or without.
#include "core/base/log.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "core/base/file_identity.hpp"
#include "core/base/line_writer.hpp"
#include "core/base/printable.hpp"

namespace gpumem::base {
namespace {

std::atomic<int> descriptor{STDERR_FILENO};
constinit file_identity taken;  // the file that the descriptor named then
std::atomic<int> chosen_level{static_cast<int>(log_level::warn)};

}  // namespace

void start_log(int target, log_level level) noexcept {
  taken = file_identity::of(target);
  descriptor.store(target, std::memory_order_relaxed);
  chosen_level.store(static_cast<int>(level), std::memory_order_relaxed);
}

bool parse_log_level(std::string_view name, log_level& level) noexcept {
  constexpr std::string_view names[] = {"trace", "debug", "info", "warn", "error", "off"};
  for (std::size_t i = 0; i < std::size(names); ++i) {
    if (name == names[i]) {
      level = static_cast<log_level>(i);
      return true;
    }
  }
  return false;
}

int log_descriptor() noexcept {
  int const saved = errno;
  int found = descriptor.load(std::memory_order_relaxed);
  if (taken.known && file_identity::of(found) != taken) {
    found = file_identity::of(STDERR_FILENO) == taken ? STDERR_FILENO : -1;
  }
  errno = saved;
  return found;
}

void log_line(log_level level, std::string_view text) noexcept {
  if (static_cast<int>(level) < chosen_level.load(std::memory_order_relaxed) || level == log_level::off)
    return;
  try {
    std::string line = "gpumem: ";
    if (level == log_level::warn) line += "warning: ";
    if (level == log_level::error) line += "error: ";
    line += printable(text);
    line += '\n';
    // No lock, which a fork might leave behind: each line is one write(2).
    write_all(log_descriptor(), line);
  } catch (...) {
    write_all(log_descriptor(), "gpumem: a message was lost: out of host memory\n");
  }
}

}  // namespace gpumem::base
