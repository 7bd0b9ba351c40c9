// See event_writer.hpp. Columns: RMM's six, so that its replay benchmark reads the file, then ours.
#include "core/stats/events/event_writer.hpp"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/files/file_pattern.hpp"
#include "core/base/local_time.hpp"
#include "core/base/log/line_writer.hpp"
#include "core/base/log/log.hpp"
#include "core/stats/callers/modules.hpp"
#include "core/stats/page/describe_process.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::stats {
namespace {

constexpr char first_line[] = "Thread,Time,Action,Pointer,Size,Stream,Device,Kind,Call,Library\n";

}  // namespace

bool event_writer::create(char const* pattern) noexcept {
  int const saved = errno;
  std::string error;
  try {
    base::expansion const name = base::expand_pattern(pattern, values_of_this_process());
    base::created_file file;
    file.error = name.error;
    std::string folder;
    if (name.error.empty()) {
      char now[512];
      if (name.text.front() != '/' && ::getcwd(now, sizeof now) != nullptr) folder = std::string(now) + "/";
      file = base::create_without_overwriting(folder + name.text, {.error = base::log_descriptor()});
    }
    error = file.error;
    if (error.empty() && !file_.keep(file.descriptor, file.path.c_str(), O_WRONLY | O_APPEND))
      error = std::strerror(errno);
  } catch (...) {
    error = "out of host memory";
  }
  errno = saved;
  if (!error.empty()) {
    base::log_line(base::log_level::warn, "no log of allocations: " + error);
    return false;
  }
  utc_offset_ns_ = base::utc_offset_ns();
  put(first_line);
  flush();
  return !lost_;
}

void event_writer::flush() noexcept {
  if (used_ == 0) return;
  int const saved = errno;
  // Without O_APPEND the position travels with the descriptor; a file opened again is continued at its end.
  int const descriptor = lost_ ? -1 : file_.descriptor();
  if (!lost_ &&
      (descriptor < 0 || !base::write_all(descriptor, {text_, used_}, base::patience_for_report_ns))) {
    lost_ = true;
    char text[1200];
    std::snprintf(
        text, sizeof text,
        "the log of allocations %s ends here: its file is gone, its disk is full, or nobody reads it",
        file_.path());
    base::log_line(base::log_level::warn, text);
  }
  used_ = 0;
  errno = saved;
}

void event_writer::add(stamped_event const& one) noexcept {
  if (used_ + longest_line > sizeof text_) flush();
  event const& e = one.what;
  bool const failed = e.what == event::action::allocate_failure;
  put_number(one.thread);
  put(',');
  put_time(one.wall_ns);
  put(failed ? ",allocate failure," : e.what == event::action::free ? ",free," : ",allocate,");
  if (failed) {
    put("(nil)");  // as printf's %p writes it, which is RMM's way
  } else {
    put("0x");
    put_hex(e.address);
  }
  put(',');
  put_number(e.bytes);
  put(',');
  if (e.stream != 0) put("0x");
  put_hex(e.stream);
  put(',');
  put_number(static_cast<std::uint64_t>(e.device));
  put(',');
  put(e.kind);
  put(',');
  page const* const now = current_page();
  if (e.caller != nullptr && now != nullptr && e.hook < now->fixed.head.hook_count) {
    put_name(now->fixed.hooks[e.hook].symbol, 64);
  }
  put(',');
  if (module_entry const* const from = module_of(e.caller); from != nullptr) {
    char const* const slash = std::strrchr(from->path, '/');
    put_name(slash != nullptr ? slash + 1 : from->path, 128);
  }
  put('\n');
}

void event_writer::put(char const* words) noexcept {
  std::size_t const length = std::strlen(words);
  std::memcpy(text_ + used_, words, length);
  used_ += length;
}

// A name must not end its column, nor its line.
void event_writer::put_name(char const* name, std::size_t most) noexcept {
  for (std::size_t i = 0; i < most && name[i] != '\0'; ++i) {
    auto const letter = static_cast<unsigned char>(name[i]);
    put(letter < ' ' || letter == ',' || letter == '"' ? '_' : name[i]);
  }
}

void event_writer::put_number(std::uint64_t number, int digits) noexcept {
  char reversed[20];
  int count = 0;
  for (; number != 0 || count < digits; number /= 10)
    reversed[count++] = static_cast<char>('0' + number % 10);
  while (count > 0) put(reversed[--count]);
}

void event_writer::put_hex(std::uint64_t number) noexcept {
  int shift = number == 0 ? 0 : (63 - __builtin_clzll(number)) / 4 * 4;
  for (; shift >= 0; shift -= 4) put("0123456789abcdef"[number >> shift & 15]);
}

// HH:MM:SS.uuuuuu, local time. Two threads may take their numbers and the time in different order: the file's
// time never goes back.
void event_writer::put_time(std::uint64_t wall_ns) noexcept {
  if (wall_ns > last_ns_) last_ns_ = wall_ns;
  std::uint64_t const us = (last_ns_ + static_cast<std::uint64_t>(utc_offset_ns_)) / 1000;
  std::uint64_t const seconds = us / 1'000'000 % 86'400;
  put_number(seconds / 3600, 2);
  put(':');
  put_number(seconds / 60 % 60, 2);
  put(':');
  put_number(seconds % 60, 2);
  put('.');
  put_number(us % 1'000'000, 6);
}

}  // namespace gpumem::stats
