// Brings about from a recording what recommending needs. A recording knows streams and threads, but not how
// large the device is, nor how its requests were served. Damaged parts are left out, and said by the reader.
#pragma once

#include <vector>

#include "core/recording/reader/recording_file.hpp"
#include "shim/cli/recommend/use.hpp"

namespace gpumem::cli {

program_use use_of_recording(recording::recording_file const& file, std::vector<recording::fault>& faults);

}  // namespace gpumem::cli
