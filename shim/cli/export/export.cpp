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
    if (good_ && !text_.empty())
      good_ = descriptor_ == STDOUT_FILENO ? print(text_) : base::write_all(descriptor_, text_);
    text_.clear();
    return good_;
  }

 private:
  int const descriptor_;
  std::string text_;
  bool good_ = true;
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

int export_to(int descriptor, export_options const& options, recording::recording_file const& file) {
  std::vector<recording::fault> faults = file.faults();
  csv_output out(descriptor);
  write_rmm_csv(file, out, faults);
  if (!out.flush()) return exit_not_written;
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
  if (options.output.empty()) return export_to(STDOUT_FILENO, options, input.file);
  base::created_file const made = base::create_without_overwriting(options.output);
  if (!made.error.empty()) {
    base::log_line(base::log_level::error, base::printable(made.error));
    return exit_not_written;
  }
  int const code = export_to(made.descriptor, options, input.file);
  ::close(made.descriptor);
  return code;
}

}  // namespace gpumem::cli
