// A recording, opened for a verb: completed first where a killed process left a part of it elsewhere, and
// with a word about all that it lacks, so that nobody takes a part for the whole. One thread.
#pragma once

#include <string>
#include <vector>

#include "core/recording/reader/recording_file.hpp"

namespace gpumem::cli {

struct recording_input {
  recording::recording_file file;
  std::string error;               // empty: it is open
  std::vector<std::string> lacks;  // sentences without the file's name, that are no faults of the file
};

void open_recording(std::string const& path, recording_input& into);

// A warning for each of what it lacks.
void say_what_it_lacks(std::string const& path, recording_input const& input);

// A warning for each.
void say_faults(std::string const& path, std::vector<recording::fault> const& faults);

}  // namespace gpumem::cli
