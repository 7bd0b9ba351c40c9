// See document.hpp. Field names and their order are those of the JSON; a test rejects duplicates.
#include "core/report/document.hpp"

#include <algorithm>
#include <utility>

#include "core/report/call_sites.hpp"
#include "core/report/coverage.hpp"
#include "core/report/findings.hpp"
#include "core/report/names/symbol_names.hpp"
#include "core/report/phases.hpp"
#include "core/report/places.hpp"
#include "core/report/put.hpp"
#include "core/report/remedy.hpp"

namespace gpumem::report {
namespace {

using stats::snapshot;

std::uint64_t difference(std::uint64_t more, std::uint64_t less) {
  return more > less ? more - less : 0;
}

document process_of(snapshot const& from) {
  document environment = document::object();
  for (auto const& item : from.environment) {
    auto const equals = item.find('=');
    if (equals != item.npos) environment[item.substr(0, equals)] = item.substr(equals + 1);
  }
  document process{{"pid", from.pid},
                   {"ppid", from.ppid},
                   {"start_ns", from.opened_wall_ns},
                   {"exec_no", from.exec_no},
                   {"argv", from.argv}};
  put(process, "exe", from.exe);
  put(process, "cwd", from.cwd);
  put(process, "host", from.host);
  put(process, "run_id", from.run_id);
  process["env"] = std::move(environment);
  return process;
}

document end_of(snapshot const& from, document_options const& options) {
  stats::end_record const end = from.closed ? from.end : options.end.value_or(stats::end_record{});
  constexpr char const* kinds[] = {"unknown", "exit", "signal", "exec"};
  document result;
  result["kind"] = options.alive && !from.closed ? "running" : kinds[static_cast<std::size_t>(end.kind)];
  if (end.kind == stats::end_kind::exit) result["code"] = end.code;
  if (end.kind == stats::end_kind::signal) result["signal"] = end.signal;
  if (end.kind != stats::end_kind::none) result["clean"] = end.clean != 0;
  put(result, "duration_ns", nonzero(end.duration_ns));
  result["written_by"] = options.written_by;
  return result;
}

document config_of(snapshot const& from) {
  document config = document::object();
  put(config, "path", from.config_path);
  put(config, "sha256", from.config_sha256);
  put(config, "effective", from.config_text);
  config["warnings"] = from.config_warnings;
  config["unbuilt_chains"] = from.unbuilt_total;
  return config;
}

document intercept_of(snapshot const& from) {
  document hooks = document::array();
  document unrouted = document::array();
  for (auto const& hook : from.hooks) {
    symbol_name const means = describe_symbol(hook.symbol, hook.route);
    constexpr char const* kinds[] = {"allocate", "free", "other"};
    document one{{"symbol", hook.symbol}};
    put(one, "runtime", std::string(means.runtime));
    one["kind"] = kinds[static_cast<std::size_t>(means.kind)];
    one["calls"] = hook.counters.calls;
    // What chains freed is not counted by call: a sum of the rest alone would say what is not so.
    if (means.kind != call_kind::free) one["requested_bytes"] = hook.counters.bytes;
    one["served"] = hook.counters.served;
    one["failed"] = hook.counters.failed;
    one["route"] = hook.route;
    hooks.push_back(std::move(one));
    if (hook.route == "observed" && means.kind == call_kind::allocate) unrouted.push_back(hook.symbol);
  }
  document intercept{{"mode", "preload"}};
  if (from.cudart != "unknown") put(intercept, "cudart", from.cudart);
  put(intercept, "driver", nonzero(static_cast<std::uint64_t>(from.driver_version)));
  intercept["hooks"] = std::move(hooks);
  intercept["unrouted"] = std::move(unrouted);
  return intercept;
}

document ledger_of(stats::ledger const& rows) {
  document ledger{{"requested_bytes", rows.requested}, {"rounding_bytes", rows.rounding},
                  {"pending_bytes", rows.pending},     {"cached_bytes", rows.cached},
                  {"reserved_bytes", rows.reserved},   {"observed_bytes", rows.observed},
                  {"elsewhere_bytes", rows.elsewhere}};
  put(ledger, "unseen_bytes", rows.unseen);
  put(ledger, "in_use_bytes", rows.in_use);
  put(ledger, "free_bytes", rows.free);
  return ledger;
}

// Who holds most at the device's highest comes first.
document libraries_of(stats::device_totals const& from, category_table const& table) {
  auto const at_peak = [](stats::library_totals const& l) { return l.peak_routed + l.peak_observed; };
  std::vector<stats::library_totals> sorted = from.libraries;
  std::stable_sort(sorted.begin(), sorted.end(), [&](auto const& one, auto const& other) {
    return std::pair(at_peak(one), one.highest) > std::pair(at_peak(other), other.highest);
  });
  document libraries = document::array();
  for (auto const& library : sorted) {
    document one = document::object();
    put(one, "path", library.path);
    one["routed_bytes"] = library.routed;
    one["observed_bytes"] = library.observed;
    one["highest_bytes"] = library.highest;
    one["at_highest_bytes"] = at_peak(library);
    if (!table.empty()) one["category"] = table.name(table.of_library(library.path));
    libraries.push_back(std::move(one));
  }
  return libraries;
}

// "bytes" or "count", as fields.def has it.
std::string name_of(char const* counter, std::string_view unit) {
  return std::string(counter) + (unit == "bytes" ? "_bytes" : "");
}

document device_of(stats::device_totals const& from, category_table const& table) {
  document counters;
#define GPUMEM_DEVICE_FIELD(name, unit, meaning) counters[name_of(#name, #unit)] = from.counters.name;
#include "core/stats/page/fields.def"
#undef GPUMEM_DEVICE_FIELD
  bool const peaked = from.gauges.peak_reserved != 0;
  stats::ledger const& peak = from.peak;
  document result;
  result["device"] = from.ordinal;
  put(result, "uuid", from.uuid);
  put(result, "name", from.name);
  put(result, "total_bytes", nonzero(from.gauges.total));
  if (peaked) result["peak_at_ns"] = from.gauges.peak_at_ns;
  if (from.gauges.used != 0) result["in_use_at_ns"] = from.gauges.used_at_ns;
  result["now"] = ledger_of(from.now);
  if (peaked) result["at_peak"] = ledger_of(peak);
  if (from.gauges.first_looked != 0) result["unseen_at_start_bytes"] = from.gauges.first_unseen;
  put(result, "unseen_since_bytes", unseen_since(from));
  result["highest_requested_bytes"] = std::max(from.gauges.highest_requested, from.now.requested);
  result["highest_observed_bytes"] = std::max(from.gauges.highest_observed, from.now.observed);
  if (peaked && peak.requested != 0) {
    result["overhead"] =
        static_cast<double>(peak.reserved - peak.requested) / static_cast<double>(peak.requested);
  }
  result["segments"] = from.gauges.segments;
  result["live_blocks"] = from.live_blocks();
  result["libraries"] = libraries_of(from, table);
  result["counters"] = counters;
  return result;
}

document sizes_of(std::array<stats::size_bucket, stats::size_buckets> const& from) {
  document sizes = document::array();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i].count == 0) continue;
    bool const open_ended = i + 1 == from.size();
    document one = document::object();
    if (!open_ended) one["up_to_bytes"] = std::uint64_t{1} << i;
    one["requests"] = from[i].count;
    one["requested_bytes"] = from[i].bytes;
    sizes.push_back(std::move(one));
  }
  return sizes;
}

document statistics_of(stats::node_totals const& node) {
  return {{"now_blocks", node.gauges.blocks_now},
          {"highest_blocks", node.gauges.peak_blocks},
          {"total_blocks", difference(node.counters.requests, node.counters.failed)},
          {"now_bytes", node.gauges.bytes_now},
          {"highest_bytes", node.gauges.peak_bytes},
          {"total_bytes", node.counters.bytes_in},
          {"sizes", sizes_of(node.sizes)}};
}

document node_of(stats::node_totals const& node, std::size_t id) {
  auto const& count = node.counters;
  document one{{"id", id}, {"name", node.name}, {"type", node.type}, {"depth", node.depth}};
  put(one, "options", node.options);
  one["requests"] = count.requests;
  one["hits"] = count.hits;
  one["upstream"] = count.upstream;
  one["failed"] = count.failed;
  one["handed_out_bytes"] = count.bytes_in;
  one["given_back_bytes"] = count.bytes_out;
  one["now_bytes"] = difference(count.bytes_in, count.bytes_out);
  put(one, "highest_bytes", nonzero(count.most));
  one["aged_bytes"] = count.aged;
  one["unearned_bytes"] = count.unearned;
  if (node.exact) one["statistics"] = statistics_of(node);
  return one;
}

// A chain that was made ahead and asked for nothing is not there yet. Rules are, as no request may take them.
bool is_used(snapshot const& from, stats::node_totals const& of) {
  return std::ranges::any_of(from.nodes, [&](auto const& node) {
    return node.route == of.route && node.device == of.device &&
           (node.type == "rule" || node.counters.requests != 0 || node.counters.failed != 0);
  });
}

document chains_of(snapshot const& from) {
  document chains = document::array();
  for (std::size_t id = 0; id < from.nodes.size(); ++id) {
    auto const& node = from.nodes[id];
    if (!is_used(from, node)) continue;
    auto at = std::find_if(chains.begin(), chains.end(), [&node](document const& chain) {
      return chain["route"] == node.route && chain["device"] == node.device;
    });
    if (at == chains.end()) {
      chains.push_back({{"route", node.route}, {"device", node.device}, {"nodes", document::array()}});
      at = chains.end() - 1;
    }
    (*at)["nodes"].push_back(node_of(node, id));
  }
  return chains;
}

document holders_of(stats::failure_note const& note) {
  document holders = document::array();
  for (auto const& holder : note.holders) {
    document one = document::object();
    put(one, "path", holder.path);
    one["held_bytes"] = holder.bytes;
    holders.push_back(std::move(one));
  }
  return holders;
}

document sites_of(stats::failure_note const& note) {
  document sites = document::array();
  for (auto const& site : told_of(note)) sites.push_back({{"id", site.number}, {"held_bytes", site.bytes}});
  return sites;
}

document free_blocks_of(stats::failure_note const& note) {
  document sizes = document::array();
  for (std::size_t row = 0; row < note.free.size(); ++row) {
    if (note.free[row].blocks == 0) continue;
    sizes.push_back({{"from_bytes", stats::free_row_begin(row)},
                     {"blocks", note.free[row].blocks},
                     {"free_bytes", note.free[row].bytes}});
  }
  return {{"all_counted", note.free_all}, {"sizes", std::move(sizes)}};
}

document failure_of(snapshot const& from, stats::failure_note const& note, asking_codes const& codes) {
  document one{{"t_ns", note.t_ns}};
  put(one, "api", note.symbol);
  one["requested_bytes"] = note.bytes;
  put(one, "stream", nonzero(note.stream));
  one["thread"] = note.thread;
  one["device"] = note.device;
  one["error"] = note.code;
  put(one, "reason", note.reason);
  one["refused_by"] = std::string(refused_by(note));
  put(one, "remedy", remedy_for(note, from, codes));
  one["handed_out_bytes"] = note.in_use;
  one["cached_bytes"] = note.cached;
  one["largest_free_bytes"] = note.largest_free;
  if (note.free_counted) one["free_blocks"] = free_blocks_of(note);
  one["held_bytes"] = note.held;
  one["libraries"] = holders_of(note);
  one["sampled_bytes"] = note.sampled;
  one["sites"] = sites_of(note);
  put(one, "asked_at", nonzero(note.asked_at));
  put(one, "phase", note.phase);
  return one;
}

// What the remedies say of code: from the sites of `samples`. The library is the one that the ledger of
// libraries has, though it be a runtime whose frames are left out of the document.
asking_codes codes_of(snapshot const& from, document const& samples) {
  asking_codes codes;
  for (auto const& site : samples["sites"]) codes[site["id"]].place = short_place(site, from.exe);
  for (auto const& site : from.sampled_sites) {
    auto const told = codes.find(site.number);
    if (told != codes.end() && !site.frames.empty()) told->second.library = site.frames[0].library;
  }
  return codes;
}

document timeline_of(snapshot const& from) {
  document lines = document::array();
  for (auto const& device : from.devices) {
    if (device.timeline.empty()) continue;
    document line = {{"device", device.ordinal}, {"period_ns", device.timeline_period_ns}};
    for (char const* name :
         {"t_ns", "requested_bytes", "reserved_bytes", "requested_last_bytes", "reserved_last_bytes"}) {
      line[name] = document::array();
    }
    for (auto const& sample : device.timeline) {
      line["t_ns"].push_back(sample.t_ns);
      line["requested_bytes"].push_back(sample.requested_high);
      line["reserved_bytes"].push_back(sample.reserved_high);
      line["requested_last_bytes"].push_back(sample.requested_last);
      line["reserved_last_bytes"].push_back(sample.reserved_last);
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
  result["tool"] = document::object();
  put(result["tool"], "version", from.tool_version);
  result["process"] = process_of(from);
  result["end"] = std::move(end);
  result["findings"] = find_what_stands_out(from, how_it_ended);
  result["config"] = config_of(from);
  if (!from.recording_path.empty() || !from.recording_stopped.empty()) {
    document& recording = result["recording"] = document::object();
    put(recording, "path", from.recording_path);
    put(recording, "stopped", from.recording_stopped);
  }
  result["intercept"] = intercept_of(from);
  result["devices"] = document::array();
  category_table const table(from.categories);
  for (auto const& device : from.devices) result["devices"].push_back(device_of(device, table));
  result["chains"] = chains_of(from);
  result["sizes"] = sizes_of(from.sizes);
  frame_names const names = names_of_sites(from);
  site_categories const sites = categories_of_sites(from, names, table);
  result["call_sites"] = call_sites_of(from, names);
  result["samples"] = samples_of(from, names, table, sites);
  if (!table.empty()) result["categories"] = categories_of(from, table, sites);
  if (!from.phases.empty()) result["phases"] = phases_of(from, result["end"]);
  result["misuses"] = misuses_of(from);
  result["failures"] = document::array();
  asking_codes const codes = from.failures.empty() ? asking_codes{} : codes_of(from, result["samples"]);
  for (auto const& note : from.failures) {
    result["failures"].push_back(failure_of(from, note, codes));
    if (!table.empty()) result["failures"].back()["categories"] = categories_of(note, table, sites);
  }
  result["timeline"] = timeline_of(from);
  result["self"] = {
      {"counter_bytes", sizeof(stats::fixed_part) + from.shards_used * sizeof(stats::shard_slot)}};
  result["truncated"] = {{"failures", difference(from.failures_total, from.failures.size())},
                         {"misuses", difference(from.misuses_total, from.misuses.size())},
                         {"call_sites", from.call_sites_dropped},
                         {"config_text_bytes", from.config_text_dropped},
                         {"argv_bytes", from.argv_dropped},
                         {"shards_in_memory", from.shards_in_memory}};
  if (options.add_lines != nullptr) options.add_lines(result);
  return result;
}

}  // namespace gpumem::report
