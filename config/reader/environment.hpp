// The variables of gpumem, read once at the first CUDA call: never per call, and never again after the
// program may have changed its environment. Emptied before that, it is read as the process was started with
// (core/base/environment). One thread. Misspelt names and bad values become diagnostics, not
// silence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/plan/plan.hpp"
#include "config/text/diagnostic.hpp"

namespace gpumem::config {

struct environment {
  std::optional<std::string> config, report, json, record, state_dir, run_id;
  std::optional<std::string> log_level, log_file;  // of GPUMEM_LOG
  std::optional<std::string> other_log_level;      // of GPUMEM_LOG_LEVEL
  std::optional<on_error> error_policy;
  std::optional<bool> phases;
  bool disabled = false;
  std::vector<diagnostic> diagnostics;
};

// `variables` is an environ array: "NAME=value" texts and a null pointer at the end.
environment read_environment(char const* const* variables);

// True for GPUMEM_DISABLE=1 (true, yes, on). Uses no heap: the one question asked in processes without CUDA.
bool is_disabled(char const* const* variables) noexcept;
// The same for GPUMEM_PHASES=1, which is asked for when a process starts.
bool asks_for_phases(char const* const* variables) noexcept;

}  // namespace gpumem::config
