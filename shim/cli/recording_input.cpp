// See recording_input.hpp.
#include "shim/cli/recording_input.hpp"

#include "core/base/log/log.hpp"
#include "core/base/text/format.hpp"
#include "core/base/text/printable.hpp"
#include "core/recording/reader/recover.hpp"
#include "core/report/output/text_format.hpp"

namespace gpumem::cli {
namespace {

void warn(std::string const& text) {
  base::log_line(base::log_level::warn, base::printable(text));
}

}  // namespace

void open_recording(std::string const& path, recording_input& into) {
  recording::recovery_result const left = recording::recover(path);
  into.error = into.file.open(path);
  if (!into.error.empty()) return;
  // A limit of its size held: what was live when the oldest chunk began is known, how it came about is not.
  std::uint64_t const gone = into.file.chunks().empty() ? 0 : into.file.chunks().front().events_before;
  if (gone != 0)
    into.lacks.push_back(
        base::format("its oldest {} events are gone, as its size is limited", report::count_text(gone)));
  using enum recording::recovery;
  if (left.what == still_written || left.what == no_buffers || left.what == failed)
    into.lacks.push_back("it lacks its last events: " + left.reason);
  if (into.file.head().state == recording::end_state::stopped)
    into.lacks.push_back(base::format("it ended before its process: {}", into.file.head().reason));
}

void say_what_it_lacks(std::string const& path, recording_input const& input) {
  for (auto const& one : input.lacks) warn(path + ": " + one);
}

void say_faults(std::string const& path, std::vector<recording::fault> const& faults) {
  for (auto const& one : faults) warn(base::format("{}: at byte {}: {}", path, one.offset, one.text));
}

}  // namespace gpumem::cli
