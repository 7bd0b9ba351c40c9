// Which `gpumem run` this process was started by, from GPUMEM_RUN_ID ("PID-NUMBER"), and that run's mark: a
// file in the state folder. The run makes it before it starts its program, the first CUDA call below
// removes it; a mark that is left says that no CUDA call was seen. Any thread; no heap; errno stays as it
// was.
#pragma once

#include <sys/types.h>

#include <string_view>

#include "core/stats/page/file/page_file.hpp"

namespace gpumem::stats {

inline constexpr char const* mark_prefix = "run-";

// False where the id is none, or too long.
bool path_of_mark(char const* directory, std::string_view run_id, char (&path)[path_limit]) noexcept;

// 0: none, or it does not run any more, or that cannot be seen from here.
pid_t process_of_run(std::string_view run_id) noexcept;

// In the process of the first CUDA call. Nothing to do where there is no such file.
void remove_mark(std::string_view run_id) noexcept;

}  // namespace gpumem::stats
