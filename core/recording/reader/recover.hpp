// Completes the recording of a process that was killed: what it left in its buffers goes into the file, which
// is then like any other. One thread; needs write access to the file and the buffers of the process, which
// lie in its state folder.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "core/stats/page/process_life.hpp"

namespace gpumem::recording {

enum class recovery { not_needed, done, still_written, no_buffers, failed };
struct recovery_result {
  recovery what = recovery::not_needed;
  std::string reason;
};
recovery_result recover(std::string const& path);

// Of the process that the buffers of this name are of, as seen from here.
stats::process_life life_of_buffers(std::string const& path, pid_t pid, std::uint64_t start_ticks);

}  // namespace gpumem::recording
