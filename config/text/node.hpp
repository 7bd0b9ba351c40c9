// A parsed file as plain values with positions: what toml_reader hands on, without any type of the TOML
// library. Read by the readers of tables and values; lives on one thread, only while a configuration is
// loaded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpumem::config {

// Of a value or key in the file. Columns and lengths count code points; line 0: no position.
struct file_position {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::uint32_t length = 1;
};

struct node {
  enum class kind : std::uint8_t { table, array, string, integer, floating, boolean, date_time };

  std::string key;  // empty in arrays and at the root
  file_position key_at;
  file_position at;
  kind type = kind::table;
  std::string text;  // string
  std::int64_t integer = 0;
  bool truth = false;          // boolean
  std::vector<node> children;  // of tables in the order of their keys' positions, of arrays in order

  node const* find(std::string_view name) const noexcept {
    for (auto const& child : children) {
      if (child.key == name) return &child;
    }
    return nullptr;
  }
};

}  // namespace gpumem::config
