// The tables made from schema.def at the first look; see schema.hpp. Pure look-ups, any thread.
#include "config/schema/schema.hpp"

#include <algorithm>
#include <array>

namespace gpumem::config {
namespace {

constexpr std::size_t count_of_tables = 0
#define GPUMEM_TABLE(...) +1
#include "config/schema/schema.def"
#undef GPUMEM_TABLE
    ;
constexpr std::size_t count_of_types = 0
#define GPUMEM_TYPE(...) +1
#include "config/schema/schema.def"
#undef GPUMEM_TYPE
    ;
constexpr std::size_t count_of_keys = 0
#define GPUMEM_KEY(...) +1
#include "config/schema/schema.def"
#undef GPUMEM_KEY
    ;
constexpr std::size_t count_of_variables = 0
#define GPUMEM_VARIABLE(...) +1
#include "config/schema/schema.def"
#undef GPUMEM_VARIABLE
    ;

template <typename Info, std::size_t Most>
struct table {
  std::array<Info, Most> entries;
  std::size_t count = 0;

  void add(Info const& entry) noexcept { entries[count++] = entry; }
};

// A call for each line: as constants these tables would be pages of pointers that the loader relocates, and
// copies, in every process that is preloaded, with CUDA or without.
struct schema {
  table<table_info, count_of_tables> tables{};
  table<type_info, count_of_types> types{};
  table<key_info, count_of_keys> keys{};
  table<variable_info, count_of_variables> variables{};

  schema() noexcept {
#define GPUMEM_TABLE(...) add_table(__VA_ARGS__);
#define GPUMEM_TYPE(name, part, ...) add_type(name, role::part, __VA_ARGS__);
#define GPUMEM_KEY(table, name, kind, ...) add_key(table, name, value_kind::kind, __VA_ARGS__);
#define GPUMEM_VARIABLE(...) add_variable(__VA_ARGS__);
#include "config/schema/schema.def"
#undef GPUMEM_TABLE
#undef GPUMEM_TYPE
#undef GPUMEM_KEY
#undef GPUMEM_VARIABLE
  }
  [[gnu::noinline]] void add_table(char const* name, char const* form, char const* meaning) noexcept {
    tables.add({name, form, meaning});
  }
  [[gnu::noinline]] void add_type(char const* name, role part, char const* routes, char const* traits,
                                  char const* needs, char const* meaning) noexcept {
    types.add({name, part, routes, traits, needs, meaning});
  }
  [[gnu::noinline]] void add_key(char const* in, char const* name, value_kind kind, char const* preset,
                                 char const* words, std::int64_t lowest, std::int64_t highest,
                                 char const* meaning) noexcept {
    keys.add({in, name, kind, preset, words, lowest, highest, meaning});
  }
  [[gnu::noinline]] void add_variable(char const* name, char const* words, char const* meaning) noexcept {
    variables.add({name, words, meaning});
  }
};

schema const& known() noexcept {
  static schema const all;
  return all;
}

template <typename Info, std::size_t Most>
std::span<Info const> entries_of(table<Info, Most> const& from) noexcept {
  return {from.entries.data(), from.count};
}

}  // namespace

std::span<key_info const> all_keys() noexcept {
  return entries_of(known().keys);
}
std::span<table_info const> all_tables() noexcept {
  return entries_of(known().tables);
}
std::span<type_info const> all_types() noexcept {
  return entries_of(known().types);
}
std::span<variable_info const> all_variables() noexcept {
  return entries_of(known().variables);
}

bool type_info::is(std::string_view trait) const noexcept {
  return holds_word(traits, trait);
}

key_info const* find_key(std::string_view table, std::string_view name) noexcept {
  for (auto const& key : all_keys()) {
    if (key.table == table && key.name == name) return &key;
  }
  return nullptr;
}

type_info const* find_type(std::string_view name) noexcept {
  for (auto const& type : all_types()) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

std::vector<key_info const*> keys_of(std::string_view table) {
  std::vector<key_info const*> result;
  for (auto const& key : all_keys()) {
    if (key.table == table) result.push_back(&key);
  }
  return result;
}

std::vector<std::string_view> names_of_types() {
  std::vector<std::string_view> result;
  for (auto const& type : all_types()) result.push_back(type.name);
  return result;
}

std::vector<std::string_view> split_words(std::string_view words) {
  std::vector<std::string_view> result;
  while (!words.empty()) {
    auto const end = std::min(words.find('|'), words.size());
    result.push_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return result;
}

bool holds_word(std::string_view words, std::string_view word) noexcept {
  while (!words.empty()) {
    auto const end = std::min(words.find('|'), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

}  // namespace gpumem::config
