// See document.hpp. Field names and their order are those of the JSON; a test rejects duplicates.
#include "core/report/document.hpp"

#include <algorithm>
#include <utility>

#include "core/report/call_sites.hpp"
#include "core/report/coverage.hpp"
#include "core/report/findings.hpp"
#include "core/report/names/symbol_names.hpp"
#include "core/report/phases.hpp"
#include "core/report/remedy.hpp"

namespace gpumem::report {
namespace {

using stats::snapshot;

std::uint64_t difference(std::uint64_t more, std::uint64_t less) {
  return more > less ? more - less : 0;
}

document text_or_null(std::string const& text) {
  return text.empty() ? document(nullptr) : document(text);
}

document number_or_null(std::optional<std::uint64_t> number) {
  return number ? document(*number) : document(nullptr);
}

document process_of(snapshot const& from) {
  document environment = document::object();
  for (auto const& item : from.environment) {
    auto const equals = item.find('=');
    if (equals != item.npos) environment[item.substr(0, equals)] = item.substr(equals + 1);
  }
  return {{"pid", from.pid},
          {"ppid", from.ppid},
          {"start_ns", from.opened_wall_ns},
          {"exec_no", from.exec_no},
          {"argv", from.argv},
          {"exe", text_or_null(from.exe)},
          {"cwd", text_or_null(from.cwd)},
          {"host", text_or_null(from.host)},
          {"run_id", text_or_null(from.run_id)},
          {"env", environment}};
}

document end_of(snapshot const& from, document_options const& options) {
  stats::end_record end = from.closed ? from.end : options.end.value_or(stats::end_record{});
  bool const known = end.kind != stats::end_kind::none;
  constexpr char const* kinds[] = {"unknown", "exit", "signal", "exec"};
  document result;
  result["kind"] = options.alive && !from.closed ? "running" : kinds[static_cast<std::size_t>(end.kind)];
  result["code"] = end.kind == stats::end_kind::exit ? document(end.code) : document(nullptr);
  result["signal"] = end.kind == stats::end_kind::signal ? document(end.signal) : document(nullptr);
  result["clean"] = known ? document(end.clean != 0) : document(nullptr);
  result["duration_ns"] = end.duration_ns != 0 ? document(end.duration_ns) : document(nullptr);
  result["written_by"] = options.written_by;
  return result;
}

document config_of(snapshot const& from) {
  return {{"path", text_or_null(from.config_path)},
          {"sha256", text_or_null(from.config_sha256)},
          {"effective", text_or_null(from.config_text)},
          {"warning_count", from.config_warnings},
          {"unbuilt_chains", from.unbuilt_total}};
}

document intercept_of(snapshot const& from) {
  document hooks = document::array();
  document unrouted = document::array();
  for (auto const& hook : from.hooks) {
    symbol_name const means = describe_symbol(hook.symbol, hook.route);
    constexpr char const* kinds[] = {"allocate", "free", "other"};
    hooks.push_back(
        {{"symbol", hook.symbol},
         {"runtime", text_or_null(std::string(means.runtime))},
         {"kind", kinds[static_cast<std::size_t>(means.kind)]},
         {"calls", hook.counters.calls},
         // What chains freed is not counted by call: a sum of the rest alone would say what is not so.
         {"bytes", means.kind == call_kind::free ? document(nullptr) : document(hook.counters.bytes)},
         {"served", hook.counters.served},
         {"failed", hook.counters.failed},
         {"route", hook.route}});
    if (hook.route == "observed" && means.kind == call_kind::allocate) unrouted.push_back(hook.symbol);
  }
  return {{"mode", "preload"},
          {"cudart", from.cudart == "unknown" ? document(nullptr) : text_or_null(from.cudart)},
          {"driver", from.driver_version == 0 ? document(nullptr) : document(from.driver_version)},
          {"hooks", hooks},
          {"unrouted", unrouted}};
}

document ledger_of(stats::ledger const& rows) {
  return {{"requested", rows.requested},
          {"rounding", rows.rounding},
          {"pending", rows.pending},
          {"cached", rows.cached},
          {"reserved", rows.reserved},
          {"observed", rows.observed},
          {"elsewhere", rows.elsewhere},
          {"unseen", number_or_null(rows.unseen)},
          {"in_use", number_or_null(rows.in_use)},
          {"free", number_or_null(rows.free)}};
}

// Who holds most at the device's highest comes first.
document libraries_of(stats::device_totals const& from) {
  auto const at_peak = [](stats::library_totals const& l) { return l.peak_routed + l.peak_observed; };
  std::vector<stats::library_totals> sorted = from.libraries;
  std::stable_sort(sorted.begin(), sorted.end(), [&](auto const& one, auto const& other) {
    return std::pair(at_peak(one), one.highest) > std::pair(at_peak(other), other.highest);
  });
  document libraries = document::array();
  for (auto const& library : sorted) {
    libraries.push_back({{"path", text_or_null(library.path)},
                         {"routed", library.routed},
                         {"observed", library.observed},
                         {"highest", library.highest},
                         {"at_highest", at_peak(library)}});
  }
  return libraries;
}

document device_of(stats::device_totals const& from) {
  document counters;
#define GPUMEM_DEVICE_FIELD(name, unit, meaning) counters[#name] = from.counters.name;
#include "core/stats/page/fields.def"
#undef GPUMEM_DEVICE_FIELD
  bool const peaked = from.gauges.peak_reserved != 0;
  stats::ledger const& peak = from.peak;
  document result;
  result["ordinal"] = from.ordinal;
  result["uuid"] = text_or_null(from.uuid);
  result["name"] = text_or_null(from.name);
  result["total"] = from.gauges.total == 0 ? document(nullptr) : document(from.gauges.total);
  result["peak_at_ns"] = peaked ? document(from.gauges.peak_at_ns) : document(nullptr);
  result["used_at_ns"] = from.gauges.used == 0 ? document(nullptr) : document(from.gauges.used_at_ns);
  result["at_exit"] = ledger_of(from.now);
  result["at_peak"] = peaked ? ledger_of(peak) : document(nullptr);
  result["unseen_at_start"] =
      from.gauges.first_looked == 0 ? document(nullptr) : document(from.gauges.first_unseen);
  result["unseen_since"] = number_or_null(unseen_since(from));
  result["highest_requested"] = std::max(from.gauges.highest_requested, from.now.requested);
  result["highest_observed"] = std::max(from.gauges.highest_observed, from.now.observed);
  result["fragmentation"] = peaked && peak.requested != 0
                                ? document(static_cast<double>(peak.reserved - peak.requested) /
                                           static_cast<double>(peak.requested))
                                : document(nullptr);
  result["segments"] = from.gauges.segments;
  result["live_blocks"] = from.live_blocks();
  result["libraries"] = libraries_of(from);
  result["counters"] = counters;
  return result;
}

document sizes_of(std::array<stats::size_bucket, stats::size_buckets> const& from) {
  document sizes = document::array();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i].count == 0) continue;
    bool const open_ended = i + 1 == from.size();
    sizes.push_back({{"le", open_ended ? document(nullptr) : document(std::uint64_t{1} << i)},
                     {"count", from[i].count},
                     {"bytes", from[i].bytes}});
  }
  return sizes;
}

document statistics_of(stats::node_totals const& node) {
  if (!node.exact) return nullptr;
  std::uint64_t const blocks = difference(node.counters.requests, node.counters.failed);
  return {
      {"blocks", {{"now", node.gauges.blocks_now}, {"peak", node.gauges.peak_blocks}, {"total", blocks}}},
      {"bytes",
       {{"now", node.gauges.bytes_now}, {"peak", node.gauges.peak_bytes}, {"total", node.counters.bytes_in}}},
      {"sizes", sizes_of(node.sizes)}};
}

document chains_of(snapshot const& from) {
  document chains = document::array();
  for (std::size_t id = 0; id < from.nodes.size(); ++id) {
    auto const& node = from.nodes[id];
    auto at = std::find_if(chains.begin(), chains.end(), [&node](document const& chain) {
      return chain["route"] == node.route && chain["device"] == node.device;
    });
    if (at == chains.end()) {
      chains.push_back({{"route", node.route}, {"device", node.device}, {"nodes", document::array()}});
      at = chains.end() - 1;
    }
    auto const& count = node.counters;
    (*at)["nodes"].push_back({{"id", id},
                              {"name", node.name},
                              {"type", node.type},
                              {"depth", node.depth},
                              {"options", text_or_null(node.options)},
                              {"requests", count.requests},
                              {"hits", count.hits},
                              {"upstream", count.upstream},
                              {"failed", count.failed},
                              {"bytes",
                               {{"in", count.bytes_in},
                                {"out", count.bytes_out},
                                {"current", difference(count.bytes_in, count.bytes_out)},
                                {"most", count.most == 0 ? document(nullptr) : document(count.most)},
                                {"aged", count.aged},
                                {"unearned", count.unearned}}},
                              {"statistics", statistics_of(node)}});
  }
  return chains;
}

document holders_of(stats::failure_note const& note) {
  document holders = document::array();
  for (auto const& holder : note.holders)
    holders.push_back({{"path", text_or_null(holder.path)}, {"bytes", holder.bytes}});
  return holders;
}

document sites_of(stats::failure_note const& note) {
  document sites = document::array();
  for (auto const& site : note.sites) sites.push_back({{"id", site.number}, {"bytes", site.bytes}});
  return sites;
}

document failures_of(snapshot const& from) {
  document failures = document::array();
  for (auto const& note : from.failures) {
    failures.push_back({{"t_ns", note.t_ns},
                        {"api", text_or_null(note.symbol)},
                        {"bytes", note.bytes},
                        {"stream", note.stream == 0 ? document(nullptr) : document(note.stream)},
                        {"thread", note.thread},
                        {"device", note.device},
                        {"error", note.code},
                        {"reason", text_or_null(note.reason)},
                        {"refused_by", std::string(refused_by(note))},
                        {"remedy", text_or_null(remedy_for(note, from))},
                        {"in_use", note.in_use},
                        {"cached", note.cached},
                        {"largest_free", note.largest_free},
                        {"held", note.held},
                        {"holders", holders_of(note)},
                        {"sites", sites_of(note)},
                        {"asked_at", note.asked_at == 0 ? document(nullptr) : document(note.asked_at)}});
    if (!note.phase.empty()) failures.back()["phase"] = note.phase;
  }
  return failures;
}

document timeline_of(snapshot const& from) {
  document lines = document::array();
  for (auto const& device : from.devices) {
    if (device.timeline.empty()) continue;
    document line = {{"device", device.ordinal}, {"period_ns", device.timeline_period_ns}};
    for (char const* name : {"t", "requested", "reserved", "requested_last", "reserved_last"}) {
      line[name] = document::array();
    }
    for (auto const& sample : device.timeline) {
      line["t"].push_back(sample.t_ns);
      line["requested"].push_back(sample.requested_high);
      line["reserved"].push_back(sample.reserved_high);
      line["requested_last"].push_back(sample.requested_last);
      line["reserved_last"].push_back(sample.reserved_last);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

document make_document(snapshot const& from, document_options const& options) {
  document end = end_of(from, options);
  std::string const how_it_ended = end["kind"];
  document result;
  result["schema"] = schema;
  result["tool"] = {{"version", text_or_null(from.tool_version)}};
  result["process"] = process_of(from);
  result["end"] = std::move(end);
  result["findings"] = find_what_stands_out(from, how_it_ended);
  result["config"] = config_of(from);
  if (!from.recording_path.empty() || !from.recording_stopped.empty()) {
    result["recording"] = {{"path", text_or_null(from.recording_path)},
                           {"stopped", text_or_null(from.recording_stopped)}};
  }
  result["intercept"] = intercept_of(from);
  result["devices"] = document::array();
  for (auto const& device : from.devices) result["devices"].push_back(device_of(device));
  result["chains"] = chains_of(from);
  result["sizes"] = sizes_of(from.sizes);
  result["call_sites"] = call_sites_of(from);
  result["samples"] = samples_of(from);
  if (!from.phases.empty()) result["phases"] = phases_of(from, result["end"]);
  result["misuses"] = misuses_of(from);
  result["failures"] = failures_of(from);
  result["timeline"] = timeline_of(from);
  result["self"] = {
      {"counter_bytes", sizeof(stats::fixed_part) + from.shards_used * sizeof(stats::shard_slot)}};
  result["truncated"] = {{"failures", difference(from.failures_total, from.failures.size())},
                         {"misuses", difference(from.misuses_total, from.misuses.size())},
                         {"call_sites", from.call_sites_dropped},
                         {"config_text", from.config_text_dropped},
                         {"shards_in_memory", from.shards_in_memory}};
  if (options.add_lines != nullptr) options.add_lines(result);
  return result;
}

}  // namespace gpumem::report
