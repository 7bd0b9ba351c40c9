// See log.hpp. From spdlog come the levels, the logger and the filling in of a pattern. Ours are the sink,
// because programs close, replace and fork what it writes to, and the formatter: spdlog's has a class for
// each flag and way of padding, whose tables the loader would relocate in every preloaded process. The only
// file that includes spdlog. A logger is never changed or destroyed, only replaced by another: a thread may
// be inside one.
#include "core/base/log/log.hpp"

#define SPDLOG_NO_TLS  // a thread's number kept there would be the parent's in a forked child
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/sink.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>

#include "core/base/files/file_identity.hpp"
#include "core/base/log/line_writer.hpp"
#include "core/base/log/log_pattern.hpp"
#include "core/base/text/packed_names.hpp"
#include "core/base/text/printable.hpp"

namespace gpumem::base {
namespace {

namespace print = spdlog::details::fmt_helper;
using buffer = spdlog::memory_buf_t;

constexpr packed_names<7, 58> days("Sunday\0Monday\0Tuesday\0Wednesday\0Thursday\0Friday\0Saturday\0");
constexpr packed_names<12, 87> months(
    "January\0February\0March\0April\0May\0June\0July\0August\0September\0October\0November\0December\0");

constexpr char lost[] = "gpumem: a message was lost: out of host memory\n";

// UTC by arithmetic: libc's localtime_r and gmtime_r take a lock, which a fork may leave taken in the child.
struct moment {
  explicit moment(spdlog::log_clock::time_point at) noexcept
      : day(std::chrono::floor<std::chrono::days>(at)),
        date(day),
        time(std::chrono::floor<std::chrono::seconds>(at) - day) {}

  int year() const noexcept { return static_cast<int>(date.year()); }
  int month() const noexcept { return static_cast<int>(static_cast<unsigned>(date.month())); }
  int day_of_month() const noexcept { return static_cast<int>(static_cast<unsigned>(date.day())); }
  int hour() const noexcept { return static_cast<int>(time.hours().count()); }
  int hour_of_12() const noexcept { return hour() > 12 ? hour() - 12 : hour(); }
  int minute() const noexcept { return static_cast<int>(time.minutes().count()); }
  int second() const noexcept { return static_cast<int>(time.seconds().count()); }
  std::string_view weekday() const noexcept { return days[std::chrono::weekday(day).c_encoding()]; }
  std::string_view month_name() const noexcept { return months[static_cast<std::size_t>(month() - 1)]; }
  std::string_view half() const noexcept { return hour() >= 12 ? "PM" : "AM"; }

  std::chrono::sys_days day;
  std::chrono::year_month_day date;
  std::chrono::hh_mm_ss<std::chrono::seconds> time;
};

void put(std::string_view text, buffer& to) {
  print::append_string_view({text.data(), text.size()}, to);
}

// "10:07:59": numbers of two digits.
void put(std::initializer_list<int> numbers, char between, buffer& to) {
  bool first = true;
  for (int const number : numbers) {
    if (!first) to.push_back(between);
    print::pad2(number, to);
    first = false;
  }
}

void put_time(char flag, spdlog::details::log_msg const& message, buffer& to) {
  moment const at(message.time);
  std::initializer_list<int> const clock = {at.hour(), at.minute(), at.second()};
  switch (flag) {
    case 'a':
      return put(at.weekday().substr(0, 3), to);
    case 'A':
      return put(at.weekday(), to);
    case 'b':
    case 'h':
      return put(at.month_name().substr(0, 3), to);
    case 'B':
      return put(at.month_name(), to);
    case 'c':
      put(at.weekday().substr(0, 3), to);
      put(" ", to);
      put(at.month_name().substr(0, 3), to);
      put(" ", to);
      print::append_int(at.day_of_month(), to);
      put(" ", to);
      put(clock, ':', to);
      put(" ", to);
      return print::append_int(at.year(), to);
    case 'C':
      return print::pad2(at.year() % 100, to);
    case 'Y':
      return print::append_int(at.year(), to);
    case 'D':
    case 'x':
      return put({at.month(), at.day_of_month(), at.year() % 100}, '/', to);
    case 'm':
      return print::pad2(at.month(), to);
    case 'd':
      return print::pad2(at.day_of_month(), to);
    case 'H':
      return print::pad2(at.hour(), to);
    case 'I':
      return print::pad2(at.hour_of_12(), to);
    case 'M':
      return print::pad2(at.minute(), to);
    case 'S':
      return print::pad2(at.second(), to);
    case 'e':
      return print::pad3(
          static_cast<std::uint32_t>(print::time_fraction<std::chrono::milliseconds>(message.time).count()),
          to);
    case 'f':
      return print::pad6(
          static_cast<std::size_t>(print::time_fraction<std::chrono::microseconds>(message.time).count()),
          to);
    case 'F':
      return print::pad9(
          static_cast<std::size_t>(print::time_fraction<std::chrono::nanoseconds>(message.time).count()), to);
    case 'E':
      return print::append_int(
          std::chrono::floor<std::chrono::seconds>(message.time).time_since_epoch().count(), to);
    case 'p':
      return put(at.half(), to);
    case 'r':
      put({at.hour_of_12(), at.minute(), at.second()}, ':', to);
      put(" ", to);
      return put(at.half(), to);
    case 'R':
      return put({at.hour(), at.minute()}, ':', to);
    case 'T':
    case 'X':
      return put(clock, ':', to);
    default:  // 'z'
      return put("+00:00", to);
  }
}

void put_flag(char flag, spdlog::details::log_msg const& message, buffer& to) {
  auto const level = spdlog::level::to_string_view(message.level);
  switch (flag) {
    case 'v':
      return print::append_string_view(message.payload, to);
    case 'n':
      return print::append_string_view(message.logger_name, to);
    case 'l':
      return print::append_string_view(level, to);
    case 'L':
      return to.push_back(static_cast<char>(level[0] - 'a' + 'A'));
    case 'w':
      if (message.level < spdlog::level::warn) return;
      print::append_string_view(level, to);
      return put(": ", to);
    case 'P':
      return print::append_int(spdlog::details::os::pid(), to);
    case 't':
      return print::append_int(message.thread_id, to);
    case '%':
      return to.push_back('%');
    default:
      return put_time(flag, message, to);
  }
}

class line_formatter final : public spdlog::formatter {
 public:
  explicit line_formatter(log_pattern pattern) : pattern_(std::move(pattern)) {}

  void format(spdlog::details::log_msg const& message, buffer& to) override {
    for (auto const& part : pattern_.parts) {
      if (part.flag == 0) {
        put(part.text, to);
        continue;
      }
      buffer field;
      put_flag(part.flag, message, field);
      using sides = spdlog::details::padding_info::pad_side;
      auto const side = part.blanks == log_pattern_part::side::right    ? sides::right
                        : part.blanks == log_pattern_part::side::center ? sides::center
                                                                        : sides::left;
      spdlog::details::padding_info const padding(part.width, side, part.is_cut);
      spdlog::details::scoped_padder const padded(field.size(), padding, to);
      to.append(field.data(), field.data() + field.size());
    }
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<line_formatter>(pattern_); }

 private:
  log_pattern pattern_;
};

log_pattern usable(std::string_view text) {
  log_pattern pattern = parse_log_pattern(text.empty() ? default_log_pattern : text);
  return pattern.error.empty() ? pattern : parse_log_pattern(default_log_pattern);
}

// An open file and what it was: the program may close the number, and get it again for a file of its own.
struct place {
  int descriptor = -1;
  file_identity taken;

  static place of(int descriptor) noexcept { return {descriptor, file_identity::of(descriptor)}; }
  bool is_there() const noexcept { return taken.known && file_identity::of(descriptor) == taken; }
};

struct places {
  place error{STDERR_FILENO, {}};
  place file;
  std::string path;  // of the file

  // `kept`: nothing of it was closed since.
  int of_error(bool kept) const noexcept {
    if (!error.taken.known || (kept && error.is_there())) return error.descriptor;
    return file_identity::of(STDERR_FILENO) == error.taken ? STDERR_FILENO : -1;
  }
};

class line_sink final : public spdlog::sinks::sink {
 public:
  line_sink(places to, std::string pattern)
      : to_(std::move(to)), pattern_(std::move(pattern)), form_(usable(pattern_)) {}

  void log(spdlog::details::log_msg const& message) noexcept override {
    try {
      buffer text;
      form_.format(message, text);
      write(printable({text.data(), text.size()}) + '\n');
    } catch (...) {
      write_all(of_error(), lost);
    }
  }
  void flush() override {}
  // Of spdlog's interface; a pattern is set by another sink.
  void set_pattern(std::string const&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

  places const& to() const noexcept { return to_; }
  int of_error() const noexcept { return to_.of_error(kept_.load(std::memory_order_relaxed)); }
  bool has_file() const noexcept { return kept_.load(std::memory_order_relaxed) && to_.file.is_there(); }

  // A number that is given again may be the program's: it is closed once, and not used after.
  void let_go() noexcept {
    if (!kept_.exchange(false)) return;
    if (to_.error.descriptor != STDERR_FILENO && to_.error.is_there()) ::close(to_.error.descriptor);
    if (to_.file.is_there()) ::close(to_.file.descriptor);
  }
  std::string const& pattern() const noexcept { return pattern_; }

 private:
  // Each line is one write(2).
  void write(std::string const& line) {
    if (to_.file.descriptor >= 0 && kept_.load(std::memory_order_relaxed)) {
      if (to_.file.is_there() && write_all(to_.file.descriptor, line)) return;
      if (!warned_.test_and_set()) {
        write_all(of_error(),
                  "gpumem: warning: " + printable(to_.path) +
                      " cannot be written: it was closed, or its disk is full; messages go to stderr\n");
      }
    }
    // One line is waited for, those behind it go where there is room.
    bool const waits = !nobody_reads_.load(std::memory_order_relaxed);
    int const reason = write_all_or_errno(of_error(), line, waits ? patience_for_line_ns : 0);
    nobody_reads_.store(reason == ETIMEDOUT, std::memory_order_relaxed);
  }

  places const to_;
  std::string const pattern_;
  line_formatter form_;
  std::atomic_flag warned_;
  std::atomic<bool> nobody_reads_{false};
  std::atomic<bool> kept_{true};
};

// Reachable for ever, for the threads that are in one, and for those who look for leaks.
struct log {
  log(places to, std::string pattern, spdlog::level::level_enum level)
      : sink(std::move(to), std::move(pattern)),
        lines("gpumem", spdlog::sink_ptr(spdlog::sink_ptr(), &sink)) {
    lines.set_level(level);
  }

  line_sink sink;
  spdlog::logger lines;
  log* before = nullptr;
};

constinit std::atomic<log*> current = nullptr;

spdlog::level::level_enum spdlogs(log_level level) noexcept {
  return level == log_level::off ? spdlog::level::off : static_cast<spdlog::level::level_enum>(level);
}

// The one of the first message. By no lock: two threads may both make one.
log* first() noexcept try {
  auto* const made = new log({}, {}, spdlog::level::warn);
  log* none = nullptr;
  if (current.compare_exchange_strong(none, made)) return made;
  delete made;
  return none;
} catch (...) {
  return nullptr;
}

void follow(places to, std::string pattern, spdlog::level::level_enum level) {
  auto* const next = new log(std::move(to), std::move(pattern), level);
  next->before = current.load();
  while (!current.compare_exchange_weak(next->before, next)) {
  }
}

}  // namespace

void start_log(int descriptor, log_level level, std::string_view pattern) noexcept {
  try {
    log const* const before = current.load();
    follow({place::of(descriptor), {}, {}}, std::string(pattern), spdlogs(level));
    // A forked child, which begins again, had its parent's file until now.
    if (before != nullptr && before->sink.has_file()) ::close(before->sink.to().file.descriptor);
  } catch (...) {
    write_all(descriptor, lost);
  }
}

void log_into(int file, std::string_view path) noexcept {
  try {
    log const* const before = current.load() != nullptr ? current.load() : first();
    if (before == nullptr) throw std::bad_alloc();
    follow({before->sink.to().error, place::of(file), std::string(path)}, before->sink.pattern(),
           before->lines.level());
  } catch (...) {
    ::close(file);
    log_line(log_level::warn, "no host memory for the log's file: messages go to stderr");
  }
}

void let_go_of_log_in_child() noexcept {
  if (log* const now = current.load(std::memory_order_acquire)) now->sink.let_go();
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
  log const* const now = current.load(std::memory_order_acquire);
  return now == nullptr ? STDERR_FILENO : now->sink.of_error();
}

void log_line(log_level level, std::string_view text) noexcept {
  int const saved = errno;
  log* now = current.load(std::memory_order_acquire);
  if (level == log_level::off || (now == nullptr && level < log_level::warn)) return;
  if (now == nullptr) now = first();
  try {
    if (now == nullptr) throw std::bad_alloc();
    now->lines.log(spdlogs(level), spdlog::string_view_t(text.data(), text.size()));
  } catch (...) {
    write_all(log_descriptor(), lost);
  }
  errno = saved;
}

}  // namespace gpumem::base
