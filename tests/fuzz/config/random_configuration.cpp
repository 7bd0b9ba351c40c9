// See random_configuration.hpp.
#include "tests/fuzz/config/random_configuration.hpp"

#include <random>
#include <vector>

#include "config/schema/schema.hpp"

namespace gpumem::tests {
namespace {

using namespace config;

class writer {
 public:
  writer(std::uint64_t seed, std::string const& folder)
      : random_(seed), folder_(folder), stingy_(one_in(4)) {}

  std::string write() {
    std::string routes = "[route]\n";
    routes += "device = " + chain("device", 0) + "\n";
    if (one_in(2)) routes += "managed = " + chain("managed", 0) + "\n";
    if (one_in(2)) routes += "host = " + chain("host", 0) + "\n";
    std::string rules;
    for (std::size_t count = one_in(3) ? 1 + below(3) : 0; count != 0; --count) rules += rule();
    std::string devices;
    for (auto const& [name, type] : declared_) devices += one_in(8) ? device_value(name, type) : "";
    std::string behavior = one_in(4) ? "[behavior]\nfree = " + choice("behavior", "free") + "\n" : "";
    return "version = 1\n" + routes + rules + resources_ + devices + behavior;
  }

 private:
  struct declaration {
    std::string name, type;
  };

  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  bool one_in(std::size_t count) { return below(count) == 0; }
  template <typename Items>
  auto const& one_of(Items const& items) {
    return items[below(items.size())];
  }
  static std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

  // A type for this file_position of a chain; now and then one of any kind.
  type_info const& type_for(std::string_view route, bool last) {
    std::vector<type_info const*> fitting;
    for (auto const& type : all_types()) {
      bool const fits = (type.part != role::adaptor) == last && holds_word(type.routes, route);
      if (fits || one_in(60)) fitting.push_back(&type);
    }
    return *one_of(fitting);
  }

  std::string chain(std::string_view route, int depth) {
    std::string text;
    for (std::size_t adaptors = below(depth == 0 ? 4 : 3); adaptors != 0; --adaptors)
      text += quoted(resource(type_for(route, false), route, depth)) + ", ";
    return "[" + text + quoted(resource(type_for(route, true), route, depth)) + "]";
  }

  // Declares a resource; sometimes one is used twice.
  std::string resource(type_info const& type, std::string_view route, int depth) {
    for (auto const& known : declared_) {
      if (known.type == type.name && one_in(6)) return known.name;
    }
    std::string const name = one_in(4) && keys_of(table(type.name)).empty()
                                 ? std::string(type.name)
                                 : std::string(type.name) + std::to_string(++count_);
    std::string text = "[resource." + name + "]\ntype = " + quoted(type.name) + "\n";
    bool const exponents = type.name == "binning" && one_in(6);
    for (auto const* key : keys_of(table(type.name))) {
      bool const is_exponent = key->kind == value_kind::integer && type.name == "binning";
      bool const wanted = type.name == "binning" ? is_exponent == exponents : key->required() || one_in(3);
      if (wanted) text += std::string(key->name) + " = " + value(*key, route, depth) + "\n";
    }
    declared_.push_back({name, std::string(type.name)});
    resources_ += text;
    return name;
  }

  static std::string table(std::string_view type) { return "resource." + std::string(type); }

  std::string value(key_info const& key, std::string_view route, int depth) {
    switch (key.kind) {
      case value_kind::size:
      case value_kind::device_size:
        return size(key);
      case value_kind::duration:
        return quoted(one_of(std::vector<std::string>{"1 ms", "20 ms", "1 s", "never"}));
      case value_kind::integer:
        return integer(key);
      case value_kind::boolean:
        return one_in(2) ? "true" : "false";
      case value_kind::pattern:
        return quoted(folder_ + "/%p." + std::to_string(below(3)) + ".csv");
      case value_kind::line:
        return quoted("[%l] %v");
      case value_kind::name:
        return quoted("scratch");
      case value_kind::choice:
      case value_kind::glob:
        return quoted(key.words.empty() ? std::string_view("lib*") : one_of(split_words(key.words)));
      case value_kind::chain:
        return chain(route, depth + 1);
      case value_kind::chains:
        return depth > 2 ? "[]"
                         : "[" + chain(route, depth + 1) + ", " + chain(route, depth + 1) +
                               (one_in(4) ? ", " + chain(route, depth + 1) : "") + "]";
      case value_kind::bins:
        return bins(route, depth);
      case value_kind::globs:
        return "[\"lib*\", \"*/optim/*.py\"]";
    }
    return "0";
  }

  std::string choice(std::string_view in, std::string_view name) {
    return quoted(one_of(split_words(find_key(in, name)->words)));
  }

  // Limits are generous, but for one configuration in four; what is taken at start is small.
  std::string size(key_info const& key) {
    if (!key.words.empty() && one_in(4)) return quoted(one_of(split_words(key.words)));
    bool const percent = key.kind == value_kind::device_size;
    if (stingy_ && key.kind == value_kind::device_size && one_in(3)) {
      static std::vector<std::string> const odd{"1 B",   "511 B", "4 KiB",   "2 MiB",
                                                "5 GiB", "1 TiB", "8191 PiB"};
      return one_in(4) ? quoted("0.0001 % of free") : quoted(one_of(odd));
    }
    if (key.name == "alignment") return quoted(std::to_string(512u << below(6)) + " B");
    if (key.name == "redzone" || key.name == "alignment_threshold" || key.name.ends_with("_size_exponent"))
      return quoted(std::to_string(below(4) * 512) + " B");
    if (key.name == "block_size") return quoted(std::to_string(5 + below(4)) + " MiB");
    bool const limit = key.name == "allocation_limit" || key.name == "maximum_pool_size" ||
                       key.name == "arena_size" || key.name == "sparing_beyond";
    static std::vector<std::string> const large{"1 GiB", "3 GiB", "6000 MiB"};
    static std::vector<std::string> const small{"1 B", "64 KiB", "3 MiB", "16 MiB"};
    if (percent && one_in(3)) return quoted(limit ? "40 % of total" : "0.1 % of free");
    return quoted(one_of(limit ? large : small));
  }

  std::string integer(key_info const& key) {
    if (!key.words.empty() && one_in(2)) return quoted(key.words);
    if (key.name.ends_with("_exponent"))
      return std::to_string(key.name.starts_with("min") ? 8 + below(6) : 14 + below(8));
    return std::to_string(static_cast<std::size_t>(key.lowest) + below(2));
  }

  std::string bins(std::string_view route, int depth) {
    std::string text;
    std::size_t max = 256;
    for (std::size_t count = 1 + below(3); count != 0; --count) {
      max <<= 1 + below(7);
      text += std::string(text.empty() ? "" : ", ") + "{ max = \"" + std::to_string(max) + " B\"";
      if (depth < 4 && one_in(2)) {
        bool const last = one_in(4);
        text += ", to = " + quoted(resource(type_for(route, last), route, depth + 1));
      }
      text += " }";
    }
    return "[" + text + "]";
  }

  std::string rule() {
    std::string const kind = choice("rule", "kind");
    std::string text = "[[rule]]\nkind = " + kind + "\n";
    if (kind == quoted("device") && one_in(4)) text += "name = \"scratch\"\n";
    if (one_in(3)) text += "library = \"lib" + std::string(one_in(2) ? "*" : "x.so") + "\"\n";
    if (one_in(3)) text += "min_size = \"" + std::to_string(1 + below(8000)) + " B\"\n";
    if (one_in(3)) text += "max_size = \"" + std::to_string(8000 + below(8000)) + " KiB\"\n";
    if (one_in(4)) text += "device = " + std::to_string(below(3)) + "\n";
    std::string_view const route(kind.data() + 1, kind.size() - 2);
    return text + "chain = " + (one_in(4) ? "\"passthrough\"" : chain(route, 1)) + "\n";
  }

  std::string device_value(std::string const& name, std::string const& type) {
    auto const keys = keys_of(table(type));
    if (keys.empty()) return {};
    key_info const& key = *one_of(keys);
    if (key.kind == value_kind::chains || key.kind == value_kind::bins) return {};
    std::string const line = name + "." + std::string(key.name) + " = " + value(key, "device", 9) + "\n";
    std::string const header = "[device." + std::to_string(devices_) + "]\n";
    if (devices_ > 2) return {};
    ++devices_;
    return header + line;
  }

  std::mt19937_64 random_;
  std::string const folder_;
  bool const stingy_;
  std::vector<declaration> declared_;
  std::string resources_;
  std::size_t count_ = 0;
  int devices_ = 0;
};

}  // namespace

std::string random_configuration(std::uint64_t seed, std::string const& log_folder) {
  return writer(seed, log_folder).write();
}

}  // namespace gpumem::tests
