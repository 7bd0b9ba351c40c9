// The run of `gpumem run` that a process stands under, by its GPUMEM_RUN_ID, "PID-NUMBER"; and its mark, a
// file in the state folder that the run makes before it starts its program, and that the first CUDA call
// below it removes: what is left of it says that there was none. Any thread; no heap; errno stays as it was.
#pragma once

#include <sys/types.h>

#include <string_view>

#include "core/stats/page/page_file.hpp"

namespace gpumem::stats {

inline constexpr char const* mark_prefix = "run-";

// False where the id is none, or too long.
bool path_of_mark(char const* directory, std::string_view run_id, char (&path)[path_limit]) noexcept;

// 0: none, or it does not run any more, or that cannot be seen from here.
pid_t process_of_run(std::string_view run_id) noexcept;

// In the process of the first CUDA call. Nothing to do where there is no such file.
void remove_mark(std::string_view run_id) noexcept;

}  // namespace gpumem::stats
