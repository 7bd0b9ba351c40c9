// `gpumem check --recommend FILE`: which chain a program should try, by what its report, its state page or
// its recording says. One thread.
#pragma once

#include <cstdint>
#include <string>

namespace gpumem::cli {

// `device_memory`: of devices whose size the file does not know; 0: unknown. 0 answered, 1 a part of the
// recording is damaged, 2 unreadable, 3 could not be written.
int recommend(std::string const& file, std::uint64_t device_memory);

}  // namespace gpumem::cli
