// The entrance to the configuration: file and environment in, plan and diagnostics out. Called once at the
// first CUDA call, and by `gpumem check` and `gpumem run`; one thread. Throws, prints and ends nothing: the
// caller decides what an error means (plan.error_policy, valid even then).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/plan/plan.hpp"
#include "config/reader/environment.hpp"
#include "config/text/diagnostic.hpp"

namespace gpumem::config {

struct load_result {
  config::plan plan;                    // to be used only if there are no errors
  std::vector<diagnostic> diagnostics;  // sorted
  bool no_host_memory = false;          // the rest says nothing then

  bool failed() const noexcept;
  // All of it for people, with the closing line; empty if there is nothing to say.
  std::string text(consequence outcome) const;
};

// GPUMEM_CONFIG, or the built-in default, with the variables over it.
load_result load(environment const& variables) noexcept;

// A file alone, without variables.
load_result load_file(std::string const& path) noexcept;

// The same where a person waits: also "-", standard input, and pipes.
load_result load_input(std::string const& path) noexcept;

// A text under a name; for tests and tools.
load_result load_text(std::string const& name, std::string_view text) noexcept;

// What is in effect when GPUMEM_CONFIG is not set, as a file.
std::string_view default_text() noexcept;

}  // namespace gpumem::config
