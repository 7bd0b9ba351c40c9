// Writes a plan as TOML; see effective.hpp. Keys stand in the order of schema.def. Pure.
#include "config/effective.hpp"

#include <algorithm>

#include "config/schema/schema.hpp"
#include "config/text/size_text.hpp"

namespace gpumem::config {
namespace {

constexpr std::size_t comment_column = 48;

// A basic string: patterns may hold quotes and backslashes.
std::string toml_string(std::string_view text) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  std::string result = "\"";
  for (char c : text) {
    auto const byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') result += '\\';
    if (byte < 0x20 || byte == 0x7F) {
      result += "\\u00";
      result += hex[byte >> 4];
      result += hex[byte & 15];
    } else {
      result += c;
    }
  }
  return result + "\"";
}

// A key, in quotes where it needs them.
std::string key_text(std::string const& name) {
  bool const bare = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  return bare ? name : toml_string(name);
}

std::string names_text(std::vector<std::string> const& names) {
  std::string result;
  for (auto const& name : names) result += (result.empty() ? "[" : ", ") + toml_string(name);
  return result + "]";
}

std::string chains_text(std::vector<std::vector<std::string>> const& chains) {
  std::string result;
  for (auto const& chain : chains) result += (result.empty() ? "[ " : ", ") + names_text(chain);
  return result + " ]";
}

std::string bins_text(std::vector<bin> const& bins) {
  std::string result;
  for (auto const& entry : bins) {
    size_value size;
    size.bytes = entry.max;
    result += result.empty() ? "[ { max = " : ", { max = ";
    result += toml_string(write_size(size));
    if (!entry.to.empty()) result += ", to = " + toml_string(entry.to);
    result += " }";
  }
  return result + " ]";
}

std::string text_of(option const& value) {
  if (auto const* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (auto const* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (auto const* word = std::get_if<std::string>(&value)) return toml_string(*word);
  if (auto const* size = std::get_if<size_value>(&value)) return toml_string(write_size(*size));
  if (auto const* bins = std::get_if<std::vector<bin>>(&value)) return bins_text(*bins);
  return chains_text(std::get<std::vector<std::vector<std::string>>>(value));
}

void line(std::string& out, std::string text, origin const& from) {
  text.resize(std::max(text.size() + 1, comment_column), ' ');
  out += text + "# ";
  for (char c : from.text) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  out += "\n";
}

std::string chain_text(route_plan const& route) {
  return route.passthrough ? "\"passthrough\"" : names_text(route.chain);
}

origin origin_of(plan const& from, std::string const& key) {
  auto const found = from.origins.find(key);
  return found == from.origins.end() ? origin{} : found->second;
}

void write_options(std::string& out, resource_plan const& resource, resource_plan const* base,
                   std::string const& prefix) {
  for (auto const* key : keys_of("resource." + resource.type)) {
    std::string const name(key->name);
    auto const value = resource.options.find(name);
    if (value == resource.options.end()) continue;
    std::string const text = text_of(value->second);
    if (base != nullptr) {
      auto const common = base->options.find(name);
      if (common != base->options.end() && text_of(common->second) == text) continue;
    }
    auto const from = resource.origins.find(name);
    line(out, prefix + name + " = " + text, from == resource.origins.end() ? origin{} : from->second);
  }
}

void write_rule(std::string& out, rule_plan const& rule) {
  out += "\n[[rule]]\n";
  auto const write = [&](char const* key, std::string const& text) {
    auto const from = rule.origins.find(key);
    line(out, std::string(key) + " = " + text, from == rule.origins.end() ? origin{} : from->second);
  };
  auto const write_bytes = [&](char const* key, std::optional<std::uint64_t> bytes) {
    size_value size;
    size.bytes = bytes.value_or(0);
    if (bytes) write(key, toml_string(write_size(size)));
  };
  if (!rule.name.empty()) write("name", toml_string(rule.name));
  if (!rule.library.empty()) write("library", toml_string(rule.library));
  if (!rule.api.empty()) write("api", toml_string(rule.api));
  write_bytes("min_size", rule.min_size);
  write_bytes("max_size", rule.max_size);
  if (rule.device >= 0) write("device", std::to_string(rule.device));
  write("kind", toml_string(rule.kind));
  write("chain", chain_text(rule.chain));
}

// Of tables that most never ask for, only what was set.
class rare_table {
 public:
  rare_table(std::string& out, plan const& from, std::string name)
      : out_(out), from_(from), name_(std::move(name)) {}

  void write(std::string const& key, std::string_view value) {
    auto const at = from_.origins.find(name_ + "." + key);
    if (at == from_.origins.end()) return;
    if (first_) out_ += "\n[" + name_ + "]\n";
    first_ = false;
    line(out_, key + " = " + toml_string(value), at->second);
  }

 private:
  std::string& out_;
  plan const& from_;
  std::string const name_;
  bool first_ = true;
};

void write_log(std::string& out, plan const& from) {
  rare_table log(out, from, "log");
  log.write("level", from.log_level);
  log.write("pattern", from.log_pattern);
  log.write("file", from.log_file);
}

void write_categories(std::string& out, plan const& from) {
  if (!from.categories.empty()) out += "\n[report.categories]\n";
  for (auto const& one : from.categories)
    line(out, key_text(one.name) + " = " + names_text(one.patterns),
         origin_of(from, "report.categories." + one.name));
}

void write_recording(std::string& out, plan const& from) {
  rare_table recording(out, from, "recording");
  recording.write("file", from.recording_file);
  size_value size;
  size.bytes = from.recording_max_bytes;
  recording.write("max_size", size.bytes == 0 ? "unlimited" : write_size(size));
}

}  // namespace

std::string effective_text(plan const& effective) {
  std::string out = "version = 1\n\n[route]\n";
  line(out, "device = " + chain_text(effective.device), effective.device.where);
  line(out, "managed = " + chain_text(effective.managed), effective.managed.where);
  line(out, "host = " + chain_text(effective.host), effective.host.where);
  if (effective.pools) line(out, "pools = true", origin_of(effective, "route.pools"));
  for (auto const& rule : effective.rules) write_rule(out, rule);
  for (auto const& [name, resource] : effective.resources) {
    out += "\n[resource." + name + "]\n";
    if (resource.type != name) out += "type = " + toml_string(resource.type) + "\n";
    write_options(out, resource, nullptr, {});
  }
  for (auto const& [number, resources] : effective.devices) {
    out += "\n[device." + std::to_string(number) + "]\n";
    for (auto const& [name, resource] : resources) {
      auto const base = effective.resources.find(name);
      write_options(out, resource, base == effective.resources.end() ? nullptr : &base->second, name + ".");
    }
  }
  out += "\n[behavior]\n";
  auto const free_name = route::free_mode_names[static_cast<std::size_t>(effective.free)];
  line(out, "free = \"" + std::string(free_name) + "\"", origin_of(effective, "behavior.free"));
  line(out,
       effective.error_policy == on_error::abort ? "on_config_error = \"abort\""
                                                 : "on_config_error = \"passthrough\"",
       origin_of(effective, "behavior.on_config_error"));
  out += "\n[report]\n";
  line(out, "text = " + toml_string(effective.report_text), origin_of(effective, "report.text"));
  line(out, "json = " + toml_string(effective.report_json.empty() ? "none" : effective.report_json),
       origin_of(effective, "report.json"));
  if (effective.origins.contains("report.sample_every")) {
    size_value size;
    size.bytes = effective.sample_every;
    line(out, "sample_every = " + toml_string(size.bytes == 0 ? "never" : write_size(size)),
         origin_of(effective, "report.sample_every"));
  }
  if (effective.origins.contains("report.phases"))
    line(out, effective.phases ? "phases = true" : "phases = false", origin_of(effective, "report.phases"));
  write_categories(out, effective);
  write_recording(out, effective);
  write_log(out, effective);
  return out;
}

}  // namespace gpumem::config
