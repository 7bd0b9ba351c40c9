// See recommend.hpp.
#include "shim/cli/recommend/recommend.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/log/log.hpp"
#include "core/base/text/printable.hpp"
#include "core/report/document.hpp"
#include "shim/cli/output.hpp"
#include "shim/cli/programs/preload.hpp"
#include "shim/cli/recommend/advice.hpp"
#include "shim/cli/recommend/recorded_use.hpp"
#include "shim/cli/recommend/report_fields.hpp"
#include "shim/cli/recording_input.hpp"
#include "shim/cli/report/json_report.hpp"

namespace gpumem::cli {
namespace {

int fail(std::string const& reason) {
  base::log_line(base::log_level::error, base::printable(reason));
  return 2;
}

enum class kind { recording, report, page };

kind kind_of(std::string const& path) {
  char begin[sizeof recording::file_magic] = {};
  int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  bool const whole = descriptor >= 0 && ::read(descriptor, begin, sizeof begin) == ssize_t{sizeof begin};
  if (descriptor >= 0) ::close(descriptor);
  if (whole && std::memcmp(begin, recording::file_magic, sizeof begin) == 0) return kind::recording;
  return begin[0] == '{' ? kind::report : kind::page;
}

int tell(program_use use, std::uint64_t device_memory) {
  for (device_use& device : use.devices) {
    if (!device.total && device_memory != 0) device.total = device_memory;
  }
  return print(recommendation(use, examples_folder())) ? 0 : exit_not_written;
}

int of_recording(std::string const& path, std::uint64_t device_memory) {
  recording_input input;
  open_recording(path, input);
  if (!input.error.empty()) return fail(input.error);
  say_what_it_lacks(path, input);
  std::vector<recording::fault> faults = input.file.faults();
  program_use use = use_of_recording(input.file, faults);
  use.is_partial = !input.lacks.empty() || !faults.empty();
  int const told = tell(std::move(use), device_memory);
  say_faults(path, faults);
  return told != 0 ? told : faults.empty() ? 0 : 1;
}

}  // namespace

int recommend(std::string const& file, std::uint64_t device_memory) {
  switch (kind_of(file)) {
    case kind::recording:
      return of_recording(file, device_memory);
    case kind::report: {
      json_report const read = read_json_report(file, 1);
      return read.error.empty() ? tell(use_of_report(read.content), device_memory) : fail(read.error);
    }
    case kind::page:
      break;
  }
  stats::snapshot_result const taken = stats::read_snapshot(file);
  if (!taken.error.empty())
    return fail(taken.error + "; what is read is a JSON report, a state page or a recording");
  return tell(use_of_report(report::make_document(taken.value, {})), device_memory);
}

}  // namespace gpumem::cli
