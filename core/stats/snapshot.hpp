// A copy of a state page with the shards added up: what report and live view are made from. Taken from this
// process's own page, or from the file of a live or dead process. Slow path; may use the heap; no CUDA call.
// A file is not trusted: a wrong magic, version or size, or a truncated or damaged one, gives an error and no
// snapshot.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/stats/layout.hpp"
#include "core/stats/ledger.hpp"

namespace gpumem::stats {

struct hook_totals {
  std::string symbol;
  std::string route;
  hook_counters counters{};
};

struct device_totals {
  int ordinal = 0;
  std::string name;
  std::string uuid;
  device_counters counters{};
  device_gauges gauges{};
  ledger now;
  ledger peak;
  std::uint64_t timeline_period_ns = 0;
  std::vector<timeline_sample> timeline;
};

struct node_totals {
  std::string name, type, route, options;
  unsigned depth = 0;
  int device = 0;
  node_counters counters{};
};

struct failure_note {
  std::uint64_t t_ns = 0, bytes = 0, stream = 0, in_use = 0, cached = 0, largest_free = 0;
  unsigned thread = 0;
  int code = 0;
  int device = 0;
  std::string symbol;
  std::string reason;
  unsigned refused_by = 0;  // driver::refused_by
};

struct snapshot {
  std::string tool_version, host, run_id, exe, cwd, cudart, passed_by;
  std::string config_path, config_sha256, config_text;
  std::uint32_t config_text_dropped = 0, config_warnings = 0;
  std::vector<std::string> argv, environment;
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
  std::array<size_bucket, size_buckets> sizes{};
  std::vector<failure_note> failures;
  std::uint64_t failures_total = 0;

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
snapshot_result read_snapshot(std::string const& path);

}  // namespace gpumem::stats
