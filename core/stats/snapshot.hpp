// A copy of a state page with the shards added up, from which report and live view are made. Taken from
// this process's own page, or from the file of a live or dead process. Slow path; uses the heap; no CUDA
// call. A file is not trusted: a wrong magic, version or size, or a truncated or damaged file, gives an
// error and no snapshot.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/stats/page/categories.hpp"
#include "core/stats/page/layout.hpp"
#include "core/stats/page/ledger.hpp"

namespace gpumem::stats {

struct hook_totals {
  std::string symbol;
  std::string route;
  hook_counters counters{};
};

// What one library holds of a device, as requested.
struct library_totals {
  std::string path;  // empty: code of no file; "(others)": of the libraries that came when no place was left
  std::uint64_t routed = 0, observed = 0;  // now
  std::uint64_t highest = 0;
  std::uint64_t peak_routed = 0,
                peak_observed = 0;  // when all libraries together held most, or less than 1 % below
};

struct device_totals {
  int ordinal = 0;
  int highest_ordinal = 0;  // of those that are counted as this one
  std::string name;
  std::string uuid;
  device_counters counters{};
  device_gauges gauges{};
  ledger now;
  ledger peak;
  std::uint64_t timeline_period_ns = 0;
  std::vector<timeline_sample> timeline;
  std::vector<library_totals> libraries;  // that ever held memory of it

  // A request asked for memory of it, or memory was seen; see registered_ahead.
  bool is_used() const noexcept {
    return counters.allocated_blocks != 0 || counters.out_of_memory != 0 || gauges.growths != 0 ||
           gauges.highest_observed != 0;
  }
  std::uint64_t live_blocks() const noexcept {
    std::uint64_t const gone = counters.freed_blocks + counters.lost_blocks;
    return counters.allocated_blocks > gone ? counters.allocated_blocks - gone : 0;
  }
};

struct node_totals {
  std::string name, type, route, options;
  unsigned depth = 0;
  int device = 0;
  node_counters counters{};
  bool exact = false;  // it keeps the figures below
  node_gauges gauges{};
  std::array<size_bucket, size_buckets> sizes{};
};

struct code_frame {
  std::uint64_t address = 0;      // in that process
  std::string library;            // path; empty: code of no file
  std::uint64_t file_offset = 0;  // in it
};

struct python_place {
  std::string file, function;
  std::uint32_t line = 0;  // 0: not told
};

struct call_site_totals {
  unsigned number = 0;  // misuses name it so
  unsigned node = 0;
  std::uint64_t allocations = 0, allocated_bytes = 0, frees = 0, freed_bytes = 0;
  std::vector<code_frame> frames;         // innermost first
  std::vector<python_place> python = {};  // the same
  std::string thread = {};                // its name, where Python runs, but not on it
};

// What the samples of one call site stand for, in bytes of one device.
struct sampled_site_totals {
  unsigned number = 0;  // failures name it so
  int device = 0;
  std::uint64_t samples = 0;
  std::uint64_t now = 0, at_highest = 0;  // the moment of library_totals::peak_routed
  std::vector<code_frame> frames;         // innermost first; none: code that was not told apart
  std::vector<python_place> python = {};  // innermost first
  std::string thread = {};                // as in call_site_totals
};

// While phases of one name were open; see phase_figures.
struct phase_device {
  int device = 0;
  std::uint64_t highest = 0, added = 0, requests = 0, refusals = 0, growths = 0;
};
struct phase_totals {
  std::string name;
  std::uint64_t entered = 0, inside_ns = 0, open = 0;
  std::vector<std::uint64_t> open_since_ns;  // by the monotonic clock; those whose time is not inside_ns yet
  std::vector<phase_device> devices;         // those that saw anything

  // `until_ns`, by the same clock.
  std::uint64_t inside_until(std::uint64_t until_ns) const noexcept;
};

struct misuse_note {
  misuse_kind kind = misuse_kind::foreign_free;
  unsigned node = 0;
  std::uint64_t t_ns = 0, address = 0, bytes = 0, offset = 0, damaged = 0;
  unsigned here = 0, allocated_at = 0, freed_at = 0;  // call sites, 0: not known
  unsigned thread = 0;
};

struct failure_note {
  std::uint64_t t_ns = 0, bytes = 0, stream = 0, in_use = 0, cached = 0, largest_free = 0;
  unsigned thread = 0;
  int code = 0;
  int device = 0;
  std::string symbol;
  std::string reason;
  unsigned refused_by = 0;  // driver::refused_by
  std::uint64_t held = 0;   // by all libraries
  struct holder {
    std::string path;  // as in library_totals
    std::uint64_t bytes = 0;
  };
  std::vector<holder> holders = {};  // the largest ones first
  struct site {
    unsigned number = 0;  // of a sampled_site_totals
    std::uint64_t bytes = 0;
  };
  std::vector<site> sites = {};  // the same
  std::uint64_t sampled = 0;     // what the samples of all sites stood for
  unsigned asked_at = 0;         // of a sampled_site_totals; 0: not known
  std::string phase = {};        // empty: none was open
  // Free blocks by size, if they were counted: all of them, or so many that counting ended.
  std::array<free_row, free_rows> free = {};
  bool free_counted = false, free_all = false;
};

struct snapshot {
  std::string tool_version, host, run_id, exe, cwd, cudart, passed_by;
  std::string config_path, config_sha256, config_text;
  std::uint32_t config_text_dropped = 0, config_warnings = 0;
  std::vector<category> categories;  // in the order in which they are asked
  std::vector<std::string> argv, environment;
  std::uint64_t argv_dropped = 0;  // bytes of the words that argv lacks
  int pid = 0, ppid = 0;
  unsigned uid = 0, exec_no = 0;
  std::uint64_t start_ticks = 0, pid_namespace = 0, opened_wall_ns = 0;
  std::uint64_t opened_mono_ns = 0;
  int driver_version = 0;  // 0: unknown
  unsigned shards_used = 0, shards_in_memory = 0;
  bool shards_shared = false;  // more threads at once than shards: some additions may be missing
  bool closed = false;
  end_record end{};  // valid when closed

  std::vector<hook_totals> hooks;      // those that were called
  std::vector<device_totals> devices;  // those that were registered or used
  std::vector<node_totals> nodes;
  bool nodes_shared = false;  // the last is of all parts of chains that had no row left
  std::array<size_bucket, size_buckets> sizes{};
  std::vector<failure_note> failures;
  std::uint64_t failures_total = 0;
  std::vector<call_site_totals> call_sites;
  std::uint64_t call_sites_dropped = 0;
  std::uint64_t sample_every = 0;  // bytes; 0: no samples
  std::vector<sampled_site_totals> sampled_sites;
  std::vector<phase_totals> phases;  // in the order in which the program named them
  std::uint64_t phases_unmeasured = 0;
  std::uint64_t looked_at_ns = 0;  // when, by the monotonic clock; of a file when a phase was last heard of
  std::vector<misuse_note> misuses;
  std::uint64_t misuses_total = 0;
  std::uint64_t unbuilt_total = 0;                // chains
  std::string unbuilt;                            // the first one
  std::string recording_path, recording_stopped;  // empty: none, and it did not

  // No CUDA memory call was counted: nothing to report.
  bool empty() const noexcept {
    return hooks.empty() && devices.empty() && nodes.empty() && failures_total == 0;
  }
};

struct snapshot_result {
  snapshot value;
  std::string error;  // empty: good
};

snapshot_result take_snapshot();  // of this process
// Of the page in this file, whose process may still write it.
snapshot_result read_snapshot(std::string const& path);

}  // namespace gpumem::stats
