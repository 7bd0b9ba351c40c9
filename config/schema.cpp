// The tables made from schema.def; see schema.hpp. Pure look-ups, any thread; no data is computed at
// start-up.
#include "config/schema.hpp"

#include <algorithm>

namespace gpumem::config {
namespace {

constexpr auto size = value_kind::size;
constexpr auto device_size = value_kind::device_size;
constexpr auto integer = value_kind::integer;
constexpr auto choice = value_kind::choice;
constexpr auto pattern = value_kind::pattern;
constexpr auto glob = value_kind::glob;
constexpr auto boolean = value_kind::boolean;
constexpr auto chain = value_kind::chain;
constexpr auto chains = value_kind::chains;
constexpr auto bins = value_kind::bins;
constexpr auto driver = role::driver;
constexpr auto adaptor = role::adaptor;
constexpr auto junction = role::junction;

constexpr table_info tables[] = {
#define GPUMEM_TABLE(...) {__VA_ARGS__},
#include "config/schema.def"
#undef GPUMEM_TABLE
};
constexpr type_info types[] = {
#define GPUMEM_TYPE(...) {__VA_ARGS__},
#include "config/schema.def"
#undef GPUMEM_TYPE
};
constexpr key_info keys[] = {
#define GPUMEM_KEY(...) {__VA_ARGS__},
#include "config/schema.def"
#undef GPUMEM_KEY
};
constexpr variable_info variables[] = {
#define GPUMEM_VARIABLE(...) {__VA_ARGS__},
#include "config/schema.def"
#undef GPUMEM_VARIABLE
};

}  // namespace

std::span<key_info const> all_keys() noexcept {
  return keys;
}
std::span<table_info const> all_tables() noexcept {
  return tables;
}
std::span<type_info const> all_types() noexcept {
  return types;
}
std::span<variable_info const> all_variables() noexcept {
  return variables;
}

key_info const* find_key(std::string_view table, std::string_view name) noexcept {
  for (auto const& key : keys) {
    if (key.table == table && key.name == name) return &key;
  }
  return nullptr;
}

type_info const* find_type(std::string_view name) noexcept {
  for (auto const& type : types) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

std::vector<key_info const*> keys_of(std::string_view table) {
  std::vector<key_info const*> result;
  for (auto const& key : keys) {
    if (key.table == table) result.push_back(&key);
  }
  return result;
}

std::vector<std::string_view> names_of_types() {
  std::vector<std::string_view> result;
  for (auto const& type : types) result.push_back(type.name);
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
