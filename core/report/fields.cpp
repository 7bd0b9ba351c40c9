// See fields.hpp.
#include "core/report/fields.hpp"

#include <nlohmann/json.hpp>

namespace gpumem::report {

document const& field(document const& from, std::string_view name) {
  static document const* const nothing = new document(nullptr);
  if (!from.is_object()) return *nothing;
  auto const at = from.find(std::string(name));
  return at == from.end() ? *nothing : *at;
}

std::optional<std::uint64_t> number(document const& from, std::string_view name) {
  document const& value = field(from, name);
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (value.is_number_integer() && value.get<std::int64_t>() >= 0) return value.get<std::uint64_t>();
  return std::nullopt;
}

std::uint64_t number_or_zero(document const& from, std::string_view name) {
  return number(from, name).value_or(0);
}

std::string words(document const& from, std::string_view name) {
  document const& value = field(from, name);
  return value.is_string() ? printable(value.get_ref<std::string const&>()) : std::string();
}

std::string file_name(std::string const& path) {
  return path.substr(path.rfind('/') == path.npos ? 0 : path.rfind('/') + 1);
}

std::string library_name(document const& holder) {
  std::string const path = words(holder, "path");
  return path.empty() ? "generated code" : file_name(path);
}

}  // namespace gpumem::report
