// See bins_reader.hpp. One thread, once a load. Bins out of order are an error and not sorted silently: the
// file would else read as something that it does not do.
#include "config/reader/sections/bins_reader.hpp"

#include <span>

#include "config/reader/sections/resource_reader.hpp"
#include "config/reader/values/bounds.hpp"
#include "config/reader/values/value_reader.hpp"
#include "config/schema/schema.hpp"
#include "core/base/text/bytes.hpp"

namespace gpumem::config {
namespace {

constexpr key_info max_key{"resource.binning", "max", value_kind::size, "required", "", 1, 0, ""};
// Of fixed_size blocks, whose own limit this is.
constexpr key_info own_max_key{"resource.binning", "max", value_kind::size, "required", "", 1,
                               4294967296,         ""};
constexpr char const* bin_example = "write { max = \"1 KiB\" } or { max = \"1 KiB\", to = \"small\" }";

std::string shown(std::uint64_t bytes) {
  return std::string(base::print_exact_bytes(bytes).view());
}

std::optional<bin> read_bin(node const& value, diagnostics& out) {
  if (value.type != node::kind::table) {
    out.error("E203", value.at, "a bin must be a table, not " + std::string(kind_name(value.type)),
              bin_example);
    return std::nullopt;
  }
  bin result;
  bool good = true;
  for (auto const& child : value.children) {
    if (child.key == "max") {
      auto const size = read_value(value.find("to") != nullptr ? max_key : own_max_key, child, "max", out);
      good = good && size.has_value();
      if (size) result.max = std::get<size_value>(*size).bytes;
    } else if (child.key == "to" && child.type == node::kind::string) {
      result.to = child.text;
    } else if (child.key == "to") {
      out.error("E203", child.at, "to must be a string, not " + std::string(kind_name(child.type)),
                bin_example);
      good = false;
    } else {
      unknown_key(child, "a bin", {"max", "to"}, out);
      good = false;
    }
  }
  if (value.find("max") == nullptr) {
    out.error("E205", value.at, "a bin needs max, the largest request it serves", bin_example);
    good = false;
  }
  return good ? std::optional(result) : std::nullopt;
}

void exponents_error(resource_plan const& resource, file_position at, std::string const& what,
                     diagnostics& out) {
  out.error("E215", at, quoted(resource.name) + " " + what,
            "set bins, or both min_size_exponent and max_size_exponent");
}

}  // namespace

std::optional<option> read_bins(node const& value, std::string const& where, draft& all, diagnostics& out) {
  if (value.type != node::kind::array) {
    out.error("E203", value.at, "bins must be an array, not " + std::string(kind_name(value.type)),
              "write bins = [ { max = \"1 KiB\" }, { max = \"1 MiB\" } ]");
    return std::nullopt;
  }
  if (value.children.empty()) {
    out.error("E205", value.at, "there are no bins in it", bin_example);
    return std::nullopt;
  }
  std::vector<bin> bins;
  std::size_t const count = bounded(value.children.size(), most_bins, "bins", value.at, out);
  bool good = count == value.children.size();
  for (node const& child : std::span(value.children).first(count)) {
    auto const read = read_bin(child, out);
    if (!read) {
      good = false;
      continue;
    }
    if (!bins.empty() && read->max <= bins.back().max) {
      bool const twice = read->max == bins.back().max;
      out.error("E211", child.at,
                twice ? "two bins of " + shown(read->max)
                      : "the bin of " + shown(read->max) + " follows one of " + shown(bins.back().max),
                twice ? "remove one of them" : "write the smallest bin first");
      good = false;
    }
    std::string const index = where + "." + std::to_string(bins.size());
    node const* const to = child.find("to");
    all.places[index] = child.at;
    all.places[index + ".to"] = to == nullptr ? child.at : to->at;
    bins.push_back(*read);
  }
  return good ? std::optional<option>(std::move(bins)) : std::nullopt;
}

void expand_exponents(resource_plan& resource, std::string const& where, draft const& all, diagnostics& out) {
  auto const was_set = [&](std::string const& key) {
    return all.places.contains(where + "." + key) ||
           all.places.contains("resource." + resource.name + "." + key);
  };
  auto const at = [&](std::string const& key) {
    return all.where(where + "." + key, "resource." + resource.name + "." + key, where,
                     "resource." + resource.name);
  };
  auto const low = resource.options.find("min_size_exponent");
  auto const high = resource.options.find("max_size_exponent");
  bool const has_low = low != resource.options.end();
  bool const has_high = high != resource.options.end();
  if (resource.options.contains("bins")) {
    if (has_low || has_high) {
      exponents_error(resource, at(has_low ? "min_size_exponent" : "max_size_exponent"),
                      "has bins and exponents", out);
    }
    return;
  }
  if (!has_low || !has_high) {
    bool const said = was_set("bins") || (!has_low && was_set("min_size_exponent")) ||
                      (!has_high && was_set("max_size_exponent"));
    char const* const what = has_low    ? "has no max_size_exponent"
                             : has_high ? "has no min_size_exponent"
                                        : "has no bins";
    if (!said) exponents_error(resource, at("bins"), what, out);
    return;
  }
  auto const first = std::get<std::int64_t>(low->second);
  auto const last = std::get<std::int64_t>(high->second);
  if (first > last) {
    out.error("E220", at("min_size_exponent"),
              "min_size_exponent (" + std::to_string(first) + ") is larger than max_size_exponent (" +
                  std::to_string(last) + ")");
    return;
  }
  std::vector<bin> bins;
  for (auto power = first; power <= last; ++power) bins.push_back({std::uint64_t{1} << power, {}});
  resource.options["bins"] = std::move(bins);
  resource.origins["bins"] = resource.origins["min_size_exponent"];
  for (char const* key : {"min_size_exponent", "max_size_exponent"}) {
    resource.options.erase(key);
    resource.origins.erase(key);
  }
}

void forget_other_form(std::string_view key, resource_plan& resource) {
  auto const forget = [&](char const* name) {
    resource.options.erase(name);
    resource.origins.erase(name);
  };
  if (key == "bins") {
    forget("min_size_exponent");
    forget("max_size_exponent");
  } else if (key == "min_size_exponent" || key == "max_size_exponent") {
    forget("bins");
  }
}

}  // namespace gpumem::config
