// See export.hpp. Only what chains served: of segments and of memory that was merely seen RMM knows nothing.
// What was live when the oldest chunk that is left began comes first, so that each free has its allocation.
#include "shim/cli/export/export.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/files/file_pattern.hpp"
#include "core/base/log/line_writer.hpp"
#include "core/base/log/log.hpp"
#include "core/base/text/format.hpp"
#include "core/base/text/printable.hpp"
#include "core/recording/reader/recording_file.hpp"
#include "core/recording/reader/replay.hpp"
#include "shim/cli/output.hpp"
#include "shim/cli/recording_input.hpp"

namespace gpumem::cli {
namespace {

using recording::action;

class csv_output {
 public:
  explicit csv_output(int descriptor) noexcept : descriptor_(descriptor) {}

  void add(std::string_view text) {
    text_ += text;
    if (text_.size() > 1 << 20) flush();
  }
  bool flush() {
    if (error_ == 0 && !text_.empty() && descriptor_ >= 0)
      error_ = descriptor_ != STDOUT_FILENO ? base::write_all_or_errno(descriptor_, text_, base::for_ever_ns)
               : print(text_)               ? 0
                                            : EIO;
    text_.clear();
    return error_ == 0;
  }
  int error() const noexcept { return error_; }

 private:
  int const descriptor_;  // negative: it goes nowhere
  std::string text_;
  int error_ = 0;
};

// HH:MM:SS.uuuuuu of the program's local time; a later line is never of an earlier time.
class line_times {
 public:
  explicit line_times(std::int64_t utc_offset_ns) noexcept : offset_(utc_offset_ns) {}
  std::string text(std::uint64_t wall_ns) {
    last_ = std::max(last_, wall_ns);
    std::uint64_t const us = (last_ + static_cast<std::uint64_t>(offset_)) / 1000;
    std::uint64_t const seconds = us / 1'000'000 % 86'400;
    return base::format("{:02}:{:02}:{:02}.{:06}", seconds / 3600, seconds / 60 % 60, seconds % 60,
                        us % 1'000'000);
  }

 private:
  std::int64_t const offset_;
  std::uint64_t last_ = 0;
};

void write_rmm_csv(recording::recording_file const& file, csv_output& out,
                   std::vector<recording::fault>& faults) {
  recording::replay played;
  line_times times(file.head().utc_offset_ns);
  out.add("Thread,Time,Action,Pointer,Size,Stream\n");
  file.read(
      [&](recording::recording_file::item const& each) {
        auto const& one = each.what;
        auto const changed = played.apply(one);
        bool const gone = one.what == action::free || one.what == action::lost;
        if (one.what != action::allocate && one.what != action::refused && !gone) return;
        auto const thread = each.known.threads.find(one.ring);
        std::string const stream = one.stream == 0 ? "0" : base::format("0x{:x}", one.stream);
        std::string const pointer =
            one.what == action::refused ? "(nil)" : base::format("0x{:x}", one.address);
        out.add(base::format("{},{},{},{},{},{}\n", thread == each.known.threads.end() ? 0 : thread->second,
                             times.text(each.wall_ns),
                             gone                          ? "free"
                             : one.what == action::refused ? "allocate failure"
                                                           : "allocate",
                             pointer, gone ? changed.before.bytes : one.bytes, stream));
      },
      faults);
}

base::created_file output_of(std::string const& wanted) {
  if (wanted == "none") return {};
  if (wanted.empty() || wanted == "-" || wanted == "stdout")
    return {.descriptor = STDOUT_FILENO, .path = "stdout", .error = {}};
  return base::create_without_overwriting(wanted);
}

// A part of a log would be taken for the whole of it. A reader that went away (| head) has what it wanted.
int not_written(base::created_file const& made, int reason) {
  if (made.descriptor == STDOUT_FILENO) return exit_not_written;  // it is said
  if (reason == EPIPE) return 0;
  bool const removed = made.is_new && ::unlink(made.path.c_str()) == 0;
  base::log_line(base::log_level::error,
                 base::printable(base::format("cannot write all of {}: {}{}", made.path,
                                              std::strerror(reason), removed ? "; it is removed" : "")));
  return exit_not_written;
}

int export_to(base::created_file const& made, export_options const& options,
              recording::recording_file const& file) {
  std::vector<recording::fault> faults = file.faults();
  csv_output out(made.descriptor);
  write_rmm_csv(file, out, faults);
  if (!out.flush()) return not_written(made, out.error());
  say_faults(options.recording, faults);
  return faults.empty() ? 0 : 1;
}

}  // namespace

int write_export(export_options const& options) {
  recording_input input;
  open_recording(options.recording, input);
  if (!input.error.empty()) {
    base::log_line(base::log_level::error, base::printable(input.error));
    return 2;
  }
  say_what_it_lacks(options.recording, input);
  base::created_file const made = output_of(options.output);
  if (!made.error.empty()) {
    base::log_line(base::log_level::error, base::printable(made.error));
    return exit_not_written;
  }
  if (made.is_new && made.path != options.output)
    base::log_line(base::log_level::warn,
                   base::printable(base::format("{} is there already: what is asked for goes to {}",
                                                options.output, made.path)));
  int const code = export_to(made, options, input.file);
  if (made.descriptor > STDERR_FILENO) ::close(made.descriptor);
  return code;
}

}  // namespace gpumem::cli
