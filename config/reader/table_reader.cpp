// Walks the tables of a file; see table_reader.hpp. One thread, once a load. Resources come first, as
// chains and devices name them; messages are then sorted by their position in the file.
#include "config/reader/table_reader.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "config/reader/sections/categories_reader.hpp"
#include "config/reader/sections/resource_reader.hpp"
#include "config/reader/sections/route_reader.hpp"
#include "config/reader/sections/rule_reader.hpp"
#include "config/reader/values/bounds.hpp"
#include "config/reader/values/value_reader.hpp"
#include "config/schema/schema.hpp"
#include "config/text/suggest.hpp"

namespace gpumem::config {
namespace {

constexpr int largest_device = 1023;

std::vector<std::string_view> names_in(std::string_view table) {
  std::vector<std::string_view> names;
  for (auto const* key : keys_of(table)) names.push_back(key->name);
  return names;
}

bool expect_table(node const& value, std::string const& shown, std::string const& remedy, diagnostics& out) {
  if (value.type == node::kind::table) return true;
  out.error("E203", value.at, shown + " must be a table, not " + std::string(kind_name(value.type)), remedy);
  return false;
}

// False when the file is of another version: then its other words may mean anything.
bool check_version(node const& root, diagnostics& out) {
  node const* const version = root.find("version");
  if (version == nullptr) {
    out.error("E105", {1, 1, 1}, "the file has no version", "write version = 1 as its first line");
    return true;
  }
  if (version->type == node::kind::integer && version->integer == 1) return true;
  bool const number = version->type == node::kind::integer;
  out.error("E106", version->at,
            number ? "version " + std::to_string(version->integer) + " is unknown"
                   : "version must be an integer, not " + std::string(kind_name(version->type)),
            "this gpumem reads version = 1");
  return !number;
}

void unknown_top(node const& value, diagnostics& out) {
  bool const is_table = value.type == node::kind::table;
  if (value.key == "categories") {
    out.error("E202", value.key_at, "unknown table [categories]", "write [report.categories]");
    return;
  }
  if (is_table && find_type(value.key) != nullptr) {
    out.error("E202", value.key_at, "unknown table [" + value.key + "]",
              "write [resource." + value.key + "]");
    return;
  }
  std::vector<std::string_view> tables;
  std::string forms;
  for (auto const& table : all_tables()) {
    tables.push_back(table.name);
    forms += (forms.empty() ? "" : ", ") + std::string(table.form);
  }
  for (auto const& key : all_keys()) {
    if (key.name != value.key) continue;
    out.error("E201", value.key_at, quoted(value.key) + " stands outside of any table",
              "it belongs in [" + std::string(key.table) + "]");
    return;
  }
  if (!is_table) tables.push_back("version");
  auto const guess = nearest(value.key, tables);
  std::string note =
      guess.empty() ? ""
                    : "did you mean " + (is_table ? "[" + std::string(guess) + "]" : quoted(guess)) + "?  ";
  out.error(is_table ? "E202" : "E201", value.key_at,
            (is_table ? "unknown table [" + value.key + "]" : "unknown key " + quoted(value.key)),
            note + "tables: " + forms);
}

void read_pools(node const& value, draft& to, diagnostics& out) {
  auto const read = read_value(*find_key("route", "pools"), value, "route.pools", out);
  if (!read) return;
  to.result.pools = std::get<bool>(*read);
  to.result.origins["route.pools"] = {out.position(value.at)};
}

void read_routes(node const& table, draft& to, diagnostics& out) {
  if (!expect_table(table, "route", "write [route] and below it device = [\"pool\", \"cuda\"]", out)) return;
  for (auto const& child : table.children) {
    std::string const where = "route." + child.key;
    if (child.key == "device")
      read_route(child, where, where, to.result.device, to, out);
    else if (child.key == "managed")
      read_route(child, where, where, to.result.managed, to, out);
    else if (child.key == "host")
      read_route(child, where, where, to.result.host, to, out);
    else if (child.key == "pools")
      read_pools(child, to, out);
    else
      unknown_key(child, "[route]", names_in("route"), out);
  }
}

// A file that says nothing of chains, only where the report goes, means the chain that is there without a
// file.
void keep_default_route(draft& to, diagnostics& out) {
  to.result.device.passthrough = false;
  to.result.device.chain = {"pool", "cuda"};
  for (auto const& name : to.result.device.chain) resolve_name(name, {1, 1, 1}, "route.device", to, out);
}

// [behavior], [report], [recording] and [log]: keys with one value each.
void read_settings(node const& table, draft& to, diagnostics& out) {
  if (!expect_table(table, table.key, "write [" + table.key + "] and its keys below", out)) return;
  plan& result = to.result;
  for (auto const& child : table.children) {
    if (table.key == "report" && child.key == "categories") {
      read_categories(child, to, out);
      continue;
    }
    key_info const* const key = find_key(table.key, child.key);
    if (key == nullptr) {
      std::vector<std::string_view> names = names_in(table.key);
      if (table.key == "report") names.push_back("categories");
      unknown_key(child, "[" + table.key + "]", names, out);
      continue;
    }
    std::string const shown = table.key + "." + child.key;
    auto const value = read_value(*key, child, shown, out);
    if (!value) continue;
    result.origins[shown] = {out.position(child.at)};
    if (shown == "report.sample_every") {
      auto const* const size = std::get_if<size_value>(&*value);
      result.sample_every = size == nullptr ? 0 : size->bytes;
      continue;
    }
    if (shown == "recording.max_size") {
      auto const* const size = std::get_if<size_value>(&*value);
      result.recording_max_bytes = size == nullptr ? 0 : size->bytes;
      continue;
    }
    if (shown == "report.phases") {
      result.phases = std::get<bool>(*value);
      continue;
    }
    auto const& text = std::get<std::string>(*value);
    if (shown == "behavior.free") {
      auto const found = std::ranges::find(route::free_mode_names, text);
      result.free = static_cast<free_mode>(found - std::begin(route::free_mode_names));
    }
    if (shown == "behavior.on_config_error")
      result.error_policy = text == "abort" ? on_error::abort : on_error::passthrough;
    if (shown == "report.text") result.report_text = text;
    if (shown == "report.json") result.report_json = text == "none" ? "" : text;
    if (shown == "recording.file") result.recording_file = text;
    if (shown == "log.level") result.log_level = text;
    if (shown == "log.pattern") result.log_pattern = text;
    if (shown == "log.file") result.log_file = text;
  }
}

std::optional<int> device_number(std::string_view text) noexcept {
  int number = 0;
  if (text.empty() || text.size() > 4 || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + (c - '0');
  }
  return number <= largest_device ? std::optional(number) : std::nullopt;
}

void read_device(node const& table, draft& to, diagnostics& out) {
  std::string const where = "device." + table.key;
  auto const number = device_number(table.key);
  if (!number) {
    out.error(
        "E206", table.key_at, quoted(table.key) + " is no device number",
        "write [device.0], as CUDA_VISIBLE_DEVICES leaves them, up to " + std::to_string(largest_device));
    return;
  }
  if (!expect_table(table, where, "write [" + where + "] and below it pool.maximum_pool_size = \"8 GiB\"",
                    out))
    return;
  for (auto const& child : table.children) {
    std::string const named = where + "." + child.key;
    if (!expect_table(child, named, "options belong to a resource: write pool." + child.key + " = ...", out))
      continue;
    if (!resolve_name(child.key, child.key_at, "[" + where + "]", to, out)) continue;
    resource_plan merged = to.result.resources.at(child.key);
    to.places[named] = child.key_at;
    read_options(child, named, to, merged, out);
    to.result.devices[*number][child.key] = std::move(merged);
  }
}

}  // namespace

void read_tables(node const& root, draft& to, diagnostics& out) {
  if (!check_version(root, out)) return;
  node const* const resources = root.find("resource");
  if (resources != nullptr &&
      expect_table(*resources, "resource", "write [resource.NAME] and its options below", out)) {
    std::size_t const count = bounded(resources->children.size(), most_resources, "resources",
                                      resources->children.front().key_at, out);
    for (node const& table : std::span(resources->children).first(count)) read_resource(table, to, out);
  }
  if (node const* const routes = root.find("route")) read_routes(*routes, to, out);
  node const* const rules = root.find("rule");
  if (rules != nullptr) read_rules(*rules, to, out);
  if (root.find("route") == nullptr && rules == nullptr) keep_default_route(to, out);
  node const* const devices = root.find("device");
  if (devices != nullptr &&
      expect_table(*devices, "device", "write [device.0]; a chain belongs in [route]", out)) {
    std::size_t const count =
        bounded(devices->children.size(), most_devices, "devices", devices->children.front().key_at, out);
    for (node const& table : std::span(devices->children).first(count)) read_device(table, to, out);
  }
  for (auto const& child : root.children) {
    if (child.key == "behavior" || child.key == "report" || child.key == "recording" || child.key == "log")
      read_settings(child, to, out);
    else if (child.key != "version" && child.key != "resource" && child.key != "route" &&
             child.key != "device" && child.key != "rule")
      unknown_top(child, out);
  }
}

}  // namespace gpumem::config
