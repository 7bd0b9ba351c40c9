// What the user set, as the rest of shim needs it: the plan of config/ as the few values that start, route
// and report take. Loaded once by the start, on one thread; read at the end. Nothing is read before the
// first CUDA call.
#pragma once

#include <span>
#include <string_view>

#include "core/report/output/write_reports.hpp"

namespace gpumem::shim::settings {

// This program has rights that who started it lacks (setuid, file capabilities): the environment is not its
// own, and must not name files that it reads or writes. Nothing is done in it.
bool is_secure() noexcept;

// Reads configuration and environment and starts the log on `descriptor` (stderr, of which it makes a copy
// where a report is to go there; negative: nowhere). False: do nothing in this process (GPUMEM_DISABLE, or a
// bad configuration under "passthrough"). A bad configuration under "abort" prints all its errors and ends
// the process with exit code 78.
bool load(int descriptor) noexcept;

// True if no message at the end is asked for: GPUMEM_DISABLE, GPUMEM_REPORT=none, or is_secure. Uses no heap.
bool is_silent() noexcept;

// Messages go into the file that was set, if any, from here on. Its name may ask for what the state page
// knows.
void open_log() noexcept;

// Tells the state page about the configuration.
void describe() noexcept;
// If one was asked for.
void start_recording() noexcept;

// [report] phases.
bool wants_phases() noexcept;

// One line of level info.
void say_what_started(int driver_version, char const* cudart) noexcept;

// Starts the router. `calls`: the hooked functions by number, which rules may name.
void start_router(std::span<std::string_view const> calls) noexcept;
// Where the reports go, as the user set it.
report::write_options report_options() noexcept;
report::write_options const& report_patterns() noexcept;  // the same, but for descriptors; no heap
bool writes_to_stdout() noexcept;                         // a report goes there
std::string_view tool_version() noexcept;
std::string_view run_id() noexcept;

}  // namespace gpumem::shim::settings
