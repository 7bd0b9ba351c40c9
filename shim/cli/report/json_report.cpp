// See json_report.hpp.
#include "shim/cli/report/json_report.hpp"

#include "core/base/text/format.hpp"
#include "core/report/document.hpp"
#include "core/report/output/text_format.hpp"
#include "shim/cli/report/foreign_file.hpp"

namespace gpumem::cli {
namespace {

constexpr std::size_t largest_report = 64u << 20;  // JSON; the largest that is written has some 10 MiB
constexpr int deepest_report = 32;

// Whoever walks a document goes as deep as it does.
report::document parse(std::string const& text, std::string& error) {
  bool deep = false;
  auto const bounded = [&deep](int depth, report::document::parse_event_t, report::document&) {
    deep = deep || depth > deepest_report;
    return !deep;
  };
  report::document content = report::document::parse(text, bounded, false);
  if (content.is_discarded()) error = "not valid JSON: it was cut short or edited";
  if (deep) error = base::format("nested deeper than {} levels: it is no report of gpumem", deepest_report);
  return content;
}

}  // namespace

json_report read_json_report(std::string const& path, int oldest) {
  foreign_text const read = read_foreign(path, largest_report);
  if (!read.error.empty()) return {{}, read.error};
  std::string error;
  report::document content = parse(read.text, error);
  if (!error.empty()) return {{}, path + ": " + error};
  auto const schema = report::number(content, "schema").value_or(0);
  if (schema < static_cast<std::uint64_t>(oldest) || schema > static_cast<std::uint64_t>(report::schema))
    return {{}, base::format("{}: no report of gpumem with schema {}", path, report::schema)};
  return {std::move(content), {}};
}

}  // namespace gpumem::cli
