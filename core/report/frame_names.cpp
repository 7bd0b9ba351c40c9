// See frame_names.hpp.
#include "core/report/frame_names.hpp"

#include <nlohmann/json.hpp>

#include "core/report/put.hpp"

namespace gpumem::report {
namespace {

bool is_runtime_function(document const& frame) {
  std::string const name = frame.value("symbol", "");
  return name.starts_with("cuda") && name.size() > 4 && name[4] >= 'A' && name[4] <= 'Z';
}

// A static CUDA runtime is part of the program's own file: the program's code is behind the runtime's
// function. Left out where that is known, so that a call site is where the program called.
void leave_out_runtime(document& frames) {
  for (std::size_t i = 0; i + 1 < frames.size(); ++i) {
    if (!is_runtime_function(frames[i])) continue;
    frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return;
  }
}

}  // namespace

void frame_names::want(std::vector<stats::code_frame> const& frames) {
  for (auto const& frame : frames) {
    if (!frame.library.empty()) offsets_[frame.library].push_back(frame.file_offset);
  }
}

void frame_names::read() {
  for (auto const& [library, used] : offsets_) places_[library] = find_places(library, used);
}

document frame_names::frames_of(std::vector<stats::code_frame> const& frames) const {
  document result = document::array();
  for (auto const& frame : frames) {
    elf_place place{.address = frame.file_offset, .symbol = {}};
    if (!frame.library.empty()) {
      auto const& known = places_.at(frame.library);
      if (auto const found = known.find(frame.file_offset); found != known.end()) place = found->second;
    } else {
      place.address = frame.address;
    }
    document one = document::object();
    put(one, "library", frame.library);
    one["address"] = place.address;
    put(one, "symbol", place.symbol);
    result.push_back(std::move(one));
  }
  leave_out_runtime(result);
  return result;
}

}  // namespace gpumem::report
