// schema.def as tables: which keys, types and variables exist. Read by every reader of the configuration and
// by the generator of REFERENCE.md.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace gpumem::config {

enum class value_kind : std::uint8_t {
  size,
  device_size,
  duration,
  integer,
  choice,
  pattern,
  line,
  glob,
  name,
  globs,
  boolean,
  chain,
  chains,
  bins
};
// A junction is the last of its chain, as a driver is, but its memory comes from chains of its own.
enum class role : std::uint8_t { driver, adaptor, junction };

struct key_info {
  std::string_view table;  // "route", "resource.pool", "" for the top
  std::string_view name;
  value_kind kind;
  std::string_view preset;
  std::string_view words;
  std::int64_t lowest;
  std::int64_t highest;
  std::string_view meaning;

  bool required() const noexcept { return preset == "required"; }
};

struct table_info {
  std::string_view name;
  std::string_view form;
  std::string_view meaning;
};

struct type_info {
  std::string_view name;
  role part;
  std::string_view routes;
  std::string_view traits;
  std::string_view needs;
  std::string_view meaning;

  bool is(std::string_view trait) const noexcept;  // whether `traits` names it
};

struct variable_info {
  std::string_view name;
  std::string_view words;
  std::string_view meaning;
};

// The lines of schema.def, in its order; they last as long as the process.
std::span<key_info const> all_keys() noexcept;
std::span<table_info const> all_tables() noexcept;
std::span<type_info const> all_types() noexcept;
std::span<variable_info const> all_variables() noexcept;

// Null when there is none.
key_info const* find_key(std::string_view table, std::string_view name) noexcept;
type_info const* find_type(std::string_view name) noexcept;

// Those of one table or type, in the order of schema.def.
std::vector<key_info const*> keys_of(std::string_view table);
std::vector<std::string_view> names_of_types();

// "own|default" holds "own".
bool holds_word(std::string_view words, std::string_view word) noexcept;
std::vector<std::string_view> split_words(std::string_view words);

}  // namespace gpumem::config
