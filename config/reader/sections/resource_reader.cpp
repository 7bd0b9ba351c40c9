// Names, types and options of resources; see resource_reader.hpp. One thread, once a load.
// A resource whose type is unknown is reported once and kept as broken, so that it causes no further
// messages.
#include "config/reader/sections/resource_reader.hpp"

#include "config/reader/sections/bins_reader.hpp"
#include "config/reader/sections/chains_reader.hpp"
#include "config/reader/values/value_reader.hpp"
#include "config/schema/schema.hpp"
#include "config/text/suggest.hpp"

namespace gpumem::config {
namespace {

constexpr std::size_t longest_name = 40;  // the state page's field for it

std::string table_of(std::string_view type) {
  return "resource." + std::string(type);
}

std::vector<std::string_view> option_names(std::string_view type) {
  std::vector<std::string_view> names;
  for (auto const* key : keys_of(table_of(type))) names.push_back(key->name);
  return names;
}

bool is_good_name(std::string_view name) noexcept {
  for (char c : name) {
    bool const good =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (!good) return false;
  }
  return !name.empty() && name.size() <= longest_name && name != "passthrough";
}

// The type of a table, empty if there is none; the reason is then said.
std::string type_of(node const& table, diagnostics& out) {
  node const* const type = table.find("type");
  std::string const name = type == nullptr ? table.key : type->text;
  file_position const at = type == nullptr ? table.key_at : type->at;
  if (type != nullptr && type->type != node::kind::string) {
    out.error("E203", at, table.key + ".type must be a string, not " + std::string(kind_name(type->type)),
              "types: " + joined(names_of_types()));
    return {};
  }
  if (find_type(name) != nullptr) return name;
  if (type == nullptr) {
    auto const guess = nearest(name, names_of_types());
    out.error("E208", at, "[resource." + table.key + "] has no type, and " + quoted(name) + " is no type",
              (guess.empty() ? std::string() : "did you mean [resource." + std::string(guess) + "]?  ") +
                  "add type = \"...\", one of: " + joined(names_of_types()));
  } else {
    auto const guess = did_you_mean(name, names_of_types());
    out.error("E208", at, "unknown resource type " + quoted(name),
              (guess.empty() ? "" : guess + "  ") + "types: " + joined(names_of_types()));
  }
  return {};
}

std::optional<option> read_option(key_info const& key, node const& value, std::string const& where,
                                  std::string const& shown, draft& all, diagnostics& out) {
  if (key.kind == value_kind::bins) return read_bins(value, where, all, out);
  if (key.kind == value_kind::chains) return read_chains(value, where, shown, all, out);
  return read_value(key, value, shown, out);
}

}  // namespace

void unknown_key(node const& key, std::string_view table, std::vector<std::string_view> const& known,
                 diagnostics& out) {
  auto const guess = did_you_mean(key.key, known);
  std::string note = guess.empty() ? "" : guess + "  ";
  note += known.empty() ? "it has no keys" : "known keys: " + joined(known);
  out.error("E201", key.key_at, "unknown key " + quoted(key.key) + " in " + std::string(table), note);
}

void read_resource(node const& table, draft& to, diagnostics& out) {
  std::string const where = "resource." + table.key;
  to.declared.insert(table.key);
  to.places[where] = table.at;
  if (table.type != node::kind::table) {
    to.broken.insert(table.key);
    out.error("E203", table.at, where + " must be a table, not " + std::string(kind_name(table.type)),
              "write [" + where + "] and its options below");
    return;
  }
  if (!is_good_name(table.key)) {
    to.broken.insert(table.key);
    out.error(
        "E214", table.key_at, quoted(table.key) + " cannot name a resource",
        "letters, digits, _ and -, at most " + std::to_string(longest_name) + ", and not \"passthrough\"");
    return;
  }
  resource_plan resource;
  resource.name = table.key;
  resource.type = type_of(table, out);
  if (resource.type.empty()) {
    to.broken.insert(table.key);
    return;
  }
  read_options(table, where, to, resource, out);
  to.result.resources[table.key] = std::move(resource);
}

void read_options(node const& table, std::string const& where, draft& all, resource_plan& to,
                  diagnostics& out) {
  bool const device = where.starts_with("device.");
  for (auto const& child : table.children) {
    key_info const* const key = find_key(table_of(to.type), child.key);
    if (child.key == "type" && !device) continue;
    if (key == nullptr) {
      auto names = option_names(to.type);
      if (!device) names.push_back("type");
      unknown_key(child, "[" + where + "]" + (to.type == to.name ? "" : ", a " + to.type), names, out);
      continue;
    }
    std::string const place_name = where + "." + child.key;
    all.places[place_name] = child.at;
    auto value = read_option(*key, child, place_name, to.name + "." + child.key, all, out);
    if (!value) continue;  // its place stays: no rule may call it missing
    if (device) forget_other_form(child.key, to);
    to.options[child.key] = std::move(*value);
    to.origins[child.key] = {out.position(child.at)};
  }
}

bool resolve_name(std::string const& name, file_position at, std::string_view user, draft& to,
                  diagnostics& out) {
  if (to.broken.contains(name)) return false;
  if (to.result.resources.contains(name)) return true;
  if (find_type(name) != nullptr) {
    resource_plan resource;
    resource.name = name;
    resource.type = name;
    to.result.resources[name] = std::move(resource);
    to.places.emplace("resource." + name, at);
    return true;
  }
  std::vector<std::string_view> known;
  for (auto const& [known_name, resource] : to.result.resources) known.push_back(known_name);
  for (auto type : names_of_types()) known.push_back(type);
  auto const guess = nearest(name, known);
  std::string note = "declare [resource." + name + "] with a type";
  if (!guess.empty()) {
    note = "did you mean " + quoted(guess);
    if (to.declared.contains(std::string(guess))) {
      file_position const defined = to.where("resource." + std::string(guess));
      note += " (defined at " + std::to_string(defined.line) + ":" + std::to_string(defined.column) + ")";
    }
    note += "?";
  } else if (!is_good_name(name)) {
    note = name == "passthrough" ? "write " + std::string(user) + " = \"passthrough\", without brackets"
                                 : "types: " + joined(names_of_types());
  }
  out.error("E301", at, std::string(user) + " names " + quoted(name) + ", which is no resource", note);
  return false;
}

void complete(resource_plan& resource, std::string const& where, draft const& all, diagnostics& out) {
  file_position const at = all.where(where, "resource." + resource.name);
  if (resource.type == "binning") expand_exponents(resource, where, all, out);
  for (auto const* key : keys_of(table_of(resource.type))) {
    std::string const name(key->name);
    if (resource.options.contains(name)) continue;
    if (key->required()) {
      if (all.places.contains(where + "." + name) ||
          all.places.contains("resource." + resource.name + "." + name))
        continue;
      out.error("E205", at, quoted(resource.name) + " needs " + name,
                "add " + name + " = ... to [resource." + resource.name + "]: " + std::string(key->meaning));
      continue;
    }
    if (auto value = preset_value(*key)) {
      resource.options[name] = std::move(*value);
      resource.origins[name] = {};
    }
  }
}

}  // namespace gpumem::config
