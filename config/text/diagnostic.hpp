// Errors and warnings of a configuration, as values: collected by every reader and rule, rendered once, all
// together. Used while a configuration is loaded and by `gpumem check`; one thread. Nothing here ends the
// program or prints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/text/node.hpp"

namespace gpumem::config {

enum class severity : std::uint8_t { error, warning };

struct diagnostic {
  severity level = severity::error;
  std::string code;  // "E301"
  std::string file;  // as the user named it; "gpumem: environment" for variables
  file_position at;  // line 0: the file as a whole
  std::string text;  // what is wrong, with the value and the limit
  std::string note;  // the remedy
  std::string source_line;
};

// Collects diagnostics about one file.
class diagnostics {
 public:
  diagnostics(std::string file, std::string_view text) : file_(std::move(file)), text_(text) {}

  void error(char const* code, file_position at, std::string text, std::string note = {}) {
    add(severity::error, code, at, std::move(text), std::move(note));
  }
  void warning(char const* code, file_position at, std::string text, std::string note = {}) {
    add(severity::warning, code, at, std::move(text), std::move(note));
  }

  std::string const& file() const noexcept { return file_; }
  // "chain.toml:12:5", for origins.
  std::string position(file_position at) const;
  bool has_errors() const noexcept;
  std::vector<diagnostic>& list() noexcept { return list_; }

  static constexpr std::size_t most = 100;  // what comes after is echo; errors are still errors

 private:
  void add(severity level, char const* code, file_position at, std::string text, std::string note);

  std::string file_;
  std::string_view text_;  // outlives this object: the caller owns the file's text
  std::vector<diagnostic> list_;
};

// By position; those without one come last.
void sort(std::vector<diagnostic>& list);

// One message as a user reads it, with its line of the file and its note.
std::string render(diagnostic const& item);

// What the errors meant for the program, for the last line.
enum class consequence : std::uint8_t { not_started, passthrough, none };
// All of them, then "gpumem: 5 errors in chain.toml; the program was not started". Empty for an empty list.
std::string render(std::vector<diagnostic> const& list, std::string_view file, consequence outcome);

// "\"pool\"", with control characters made visible: text of a file must not command a terminal.
std::string quoted(std::string_view text);

}  // namespace gpumem::config
