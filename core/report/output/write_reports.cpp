// See write_reports.hpp.
#include "core/report/output/write_reports.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/files/file_pattern.hpp"
#include "core/base/log/line_writer.hpp"
#include "core/base/text/printable.hpp"
#include "core/report/document.hpp"
#include "core/report/output/terminal.hpp"
#include "core/report/output/text.hpp"

namespace gpumem::report {
namespace {

// The written file's name, or "" after a line on stderr.
std::string write_file(std::string const& pattern, stats::snapshot const& from, std::string const& content,
                       write_options const& options) {
  base::pattern_values values{from.argv.empty() ? from.exe : from.argv.front(), from.pid, from.host,
                              from.exec_no};
  base::expansion const name = base::expand_pattern(pattern, values);
  base::created_file file;
  file.error = name.error;
  if (file.error.empty())
    file =
        base::create_without_overwriting(name.text, {.out = options.stdout_fd, .error = options.stderr_fd});
  if (file.error.empty()) {
    int const reason = base::write_all_or_errno(file.descriptor, content, base::patience_for_report_ns);
    ::close(file.descriptor);
    // A reader that went away (| head) has what it wanted.
    if (reason == 0 || reason == EPIPE) return file.path;
    file.error = "cannot write all of " + file.path + ": " +
                 (reason == ETIMEDOUT ? "nobody reads it" : std::strerror(reason));
  }
  base::write_all(options.stderr_fd, "gpumem: error: no report: " + base::printable(file.error) + "\n");
  return {};
}

// Names and arguments are bytes, JSON is UTF-8: what does not fit is replaced, never thrown.
std::string text_of(document const& content) {
  return content.dump(1, ' ', false, document::error_handler_t::replace);
}

bool write_both(stats::snapshot const& from, write_options const& options) {
  bool good = true;
  document const content = make_document(from, options.document);
  text_options look;
  if (!options.json.empty()) {
    std::string const json = text_of(content) + "\n";
    look.json_path = write_file(options.json, from, json, options);
    good = !look.json_path.empty();
    if (base::is_standard_stream(look.json_path)) look.json_path.clear();
  }
  if (options.text == "none") return good;
  bool const to_stderr = options.text == "stderr";
  look.utf8 = locale_is_utf8();
  if (base::is_standard_stream(options.text))
    look_at_terminal(look, to_stderr ? options.stderr_fd : options.stdout_fd);
  std::string const text = render_text(content, look);
  if (to_stderr) return base::write_all(options.stderr_fd, text, base::patience_for_report_ns) && good;
  return !write_file(options.text, from, text, options).empty() && good;
}

}  // namespace

std::string json_text(stats::snapshot const& from, document_options const& options) {
  return text_of(make_document(from, options));
}

bool write_reports(stats::snapshot const& from, write_options const& options) noexcept {
  int const saved = errno;
  bool good = false;
  try {
    good = write_both(from, options);
  } catch (...) {
    base::write_all(options.stderr_fd, "gpumem: error: no report: out of host memory\n");
  }
  errno = saved;
  return good;
}

bool write_reports(stats::page const* page, write_options const& options) noexcept {
  if (page == nullptr) return true;
  int const saved = errno;
  bool good = false;
  try {
    stats::snapshot_result const taken = stats::take_snapshot();
    if (taken.error.empty()) {
      if (taken.value.empty()) return true;  // it only looked at its devices
      good = write_both(taken.value, options);
    } else {
      base::write_all(options.stderr_fd, "gpumem: error: no report: " + base::printable(taken.error) + "\n");
    }
  } catch (...) {
    base::write_all(options.stderr_fd, "gpumem: error: no report: out of host memory\n");
  }
  errno = saved;
  return good;
}

}  // namespace gpumem::report
