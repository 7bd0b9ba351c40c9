// The state page, byte for byte: what lies in the mapped file of one process. Written by the process itself,
// read by its exit report, by `gpumem report` while it lives, and by `gpumem run` after it was killed. Plain
// data only, no pointers. A change of meaning or order raises `layout_version`; a new counter in fields.def
// does not, because the page carries the counters' names and the reader goes by those.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/stats/page/counters.hpp"

namespace gpumem::stats {

inline constexpr std::uint64_t page_magic = 0x6567'6170'6d65'6d67;  // "gmempage", little endian
inline constexpr std::uint32_t layout_version = 15;
inline constexpr std::size_t max_shards = 1024;  // threads alive at once; further ones share the last shard
inline constexpr std::size_t max_failures = 16;  // the first ones are kept; all are counted
inline constexpr std::size_t timeline_samples = 512;
inline constexpr std::size_t max_modules = 256;        // files that code is mapped from
inline constexpr std::size_t max_call_sites = 2048;    // a power of two; further ones are counted as dropped
inline constexpr std::size_t most_frames = 16;         // of one call site
inline constexpr std::size_t most_python_lines = 16;   // of one call site
inline constexpr std::size_t max_python_files = 512;   // a power of two
inline constexpr std::size_t max_python_lines = 4096;  // the same
inline constexpr std::size_t max_sampled_sites =
    1024;                                             // of these, of samples; further ones count as elsewhere
inline constexpr std::size_t max_failure_sites = 64;  // that a failure keeps, the largest
inline constexpr std::size_t max_misuses = 32;        // the first ones are kept; all are counted
inline constexpr std::size_t max_holders = 4;         // that a failure names
inline constexpr std::size_t max_phases = 257;        // by name; further ones share the last, "other"
inline constexpr std::size_t max_open_phases = 1024;  // at once; further ones are counted and not measured
inline constexpr std::size_t max_fields = 64;         // counters in one list of fields.def
inline constexpr std::size_t category_bytes = 4096;   // names and patterns of all categories
inline constexpr std::size_t free_rows = 29;          // of free blocks by size

struct field_name {
  char text[32];
};

struct hook_entry {
  char symbol[64];
  char route[24];  // device | managed | host | free | observed
};

struct node_entry {
  char name[48];
  char type[24];
  char route[16];       // device | managed | host
  char options[128];    // for people: "initial 1.00 GiB, maximum 70.00 GiB"
  std::uint32_t depth;  // indentation below the top of the chain
  std::int32_t device;
};

inline constexpr std::uint64_t registered_ahead = 2;  // for a chain of which nothing was asked yet
struct device_entry {
  char name[96];
  char uuid[48];
  std::uint64_t present;  // 1 once registered; registered_ahead
  std::uint64_t highest;  // ordinal of those counted here: devices beyond the slots share the last one
  std::uint64_t timeline_period_ns;
  std::uint64_t timeline_count;
};

// All values of one period: the highest in it, and the last, so that a quiet time afterwards shows the right
// level.
struct timeline_sample {
  std::uint64_t t_ns;
  std::uint64_t requested_high;
  std::uint64_t reserved_high;
  std::uint64_t requested_last;
  std::uint64_t reserved_last;
};

// What one library held of a device.
struct holder_share {
  std::uint64_t bytes;
  std::uint64_t library;  // stats::library_id
};

// What the samples of one call site stood for.
struct site_share {
  std::uint64_t bytes;
  std::uint64_t site;  // stats::call_site
};

// Free blocks of one size: row 0 below 8 KiB, row r from 2^(r + 12) bytes to below twice as much.
struct free_row {
  std::uint64_t blocks;
  std::uint64_t bytes;
};
constexpr std::uint64_t free_row_begin(std::size_t row) noexcept {
  return row == 0 ? 1 : std::uint64_t{1} << (row + 12);
}

struct failure_entry {
  std::uint64_t ready;  // 1 when the rest is complete
  std::uint64_t t_ns;
  std::uint64_t bytes;
  std::uint64_t stream;
  std::uint64_t in_use;
  std::uint64_t cached;
  std::uint64_t largest_free;
  std::uint32_t thread;
  std::int32_t code;  // CUresult
  std::uint16_t hook;
  std::uint16_t device;
  std::uint32_t refused_by;  // see stats::failure
  char reason[240];
  std::uint64_t held;                   // by all libraries
  holder_share holders[max_holders];    // the largest first; 0 bytes: no more
  site_share sites[max_failure_sites];  // the same
  std::uint64_t sampled;                // what the samples of all call sites stood for
  std::uint64_t asked_at;               // stats::call_site; 0: not known
  std::uint64_t phase;                  // its place, from 1 on; 0: none was open
  std::uint64_t free_counted;  // 1: all free blocks are in the rows, 2: there were too many to count; 0: none
  free_row free[free_rows];
};

// A stretch of code in memory and the file it was mapped from, noted while it is there: addresses mean
// nothing later.
struct module_entry {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t file_offset;
  char path[232];
};

// A library that asked for memory; its place is its stats::library_id.
struct library_entry {
  char path[248];
};

// What one library holds of one device, in requested bytes. Written on slow paths only.
struct library_gauges {
  std::uint64_t observed;  // now, by calls that were seen but not routed
  std::uint64_t highest;   // of routed and observed together, at the moments at which the device's was taken
  std::uint64_t peak_routed;  // at the device's highest, or less than 1 % below it
  std::uint64_t peak_observed;
};

// The node of a call site: of a resource that notes its callers, or from here on of samples of one device.
inline constexpr std::uint32_t first_sample_node = max_nodes;
constexpr std::uint32_t sample_node_of(std::size_t device_slot) noexcept {
  return first_sample_node + static_cast<std::uint32_t>(device_slot);
}

// Who asked, and how much. Shared by all threads: additions are atomic. Bytes of samples are what they stand
// for.
struct alignas(64) call_site_entry {
  std::uint64_t key;  // of node and frames; written last, 0: free
  std::uint32_t node;
  std::uint32_t frame_count;
  std::uint64_t allocations;
  std::uint64_t allocated_bytes;
  std::uint64_t frees;
  std::uint64_t freed_bytes;
  std::uint64_t peak_bytes;                 // of samples: live when the libraries' peak was noted
  std::uint64_t frames[most_frames];        // return addresses, innermost first
  std::uint16_t python[most_python_lines];  // places in the table of lines, from 1 on, innermost first
  char thread[16];                          // its name, where Python runs, but not on this thread
};

// A line of Python code, and the file that it is in.
struct python_file_entry {
  std::uint64_t key;  // written last, 0: free
  char path[232];     // of a long one the end
};
struct python_line_entry {
  std::uint64_t key;   // the same
  std::uint32_t file;  // its place
  std::uint32_t line;  // 0: not told
  char function[64];
};

// What one device saw while phases of one name were open, by all threads of the process.
struct phase_figures {
  std::uint64_t highest;                      // requested and observed
  std::uint64_t added;                        // the most above what was there when one was entered
  std::uint64_t requests, refusals, growths;  // but for those since `before`
  // What these were of the whole process when the first of those that are open now was entered.
  std::uint64_t requests_before, refusals_before, growths_before;
};

// A name that the program gave to a part of its work; its place is its number.
struct phase_entry {
  std::uint64_t ready;  // 1 when the name is complete
  char name[104];
  std::uint64_t entered;
  std::uint64_t inside_ns;  // of all that are over, but for those within one of their own name
  std::uint64_t open;       // now
  phase_figures devices[max_devices];
};

// One that is open. `began` and `highest` of each device: requested and observed.
struct phase_window {
  std::uint64_t began;
  std::uint64_t highest;
};
struct open_phase {
  std::uint64_t phase;      // its place, from 1 on; 0: none
  std::uint64_t began_ns;   // of the monotonic clock
  std::uint64_t is_within;  // 1: one of its own name, whose time counts
  phase_window devices[max_devices];
};

enum class misuse_kind : std::uint32_t { double_free, foreign_free, interior_free, damaged_zone };

// A fault of the program that an adaptor saw. Call sites are numbers from 1 on; 0: not known.
struct misuse_entry {
  std::uint64_t ready;  // 1 when the rest is complete
  misuse_kind kind;
  std::uint32_t node;
  std::uint64_t t_ns;
  std::uint64_t address;
  std::uint64_t bytes;         // of the block
  std::uint64_t offset;        // from the block's start: of the free, or of the first damaged byte
  std::uint64_t damaged;       // bytes
  std::uint32_t here;          // where the program was
  std::uint32_t allocated_at;  // where the block came from
  std::uint32_t freed_at;      // the first free of a block that was freed twice
  std::uint32_t thread;
};

enum class end_kind : std::uint32_t { none, exit, signal, exec };

// Of a process that ended by itself: its own report is written, or it is left to `gpumem run`.
enum report_is : std::uint32_t { report_is_missing, report_is_written, report_is_left };

struct end_record {
  end_kind kind = end_kind::none;
  std::int32_t code = 0;
  std::int32_t signal = 0;
  std::uint32_t clean = 0;  // see report_is
  std::uint64_t duration_ns = 0;
};

struct page_header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t file_bytes;
  std::uint64_t hook_offset, node_offset, device_offset, gauge_offset, failure_offset, timeline_offset;
  std::uint64_t shard_offset, shard_stride;
  std::uint64_t module_offset, site_offset, detail_offset, detail_stride, misuse_offset;
  std::uint64_t python_file_offset, python_line_offset;
  std::uint64_t phase_offset, open_phase_offset;
  std::uint64_t library_offset, library_gauge_offset;
  std::uint32_t hook_slots, device_slots, node_slots, bucket_slots, shard_slots, failure_slots, sample_slots;
  std::uint32_t module_slots, site_slots, misuse_slots, library_slots, python_file_slots, python_line_slots;
  std::uint32_t phase_slots, open_phase_slots;
  std::uint32_t hook_fields, device_fields, node_fields, gauge_fields, node_gauge_fields;
  field_name hook_names[max_fields];
  field_name device_names[max_fields];
  field_name node_names[max_fields];
  field_name gauge_names[max_fields];
  field_name node_gauge_names[max_fields];

  std::int32_t pid, ppid;
  std::uint32_t uid, exec_no;
  std::uint64_t start_ticks;  // of /proc/PID/stat: a pid alone does not name a process
  std::uint64_t pid_namespace;
  std::uint64_t opened_wall_ns;
  std::uint64_t opened_mono_ns;
  char tool_version[32];
  char host[72];
  char run_id[64];
  char exe[512];
  char cwd[512];
  std::uint32_t argv_bytes, environment_bytes;  // NUL after each item
  char argv[4096];                              // argv_bytes may be more: what there was no room for
  char environment[4096];                       // GPUMEM_* and CUDA_* only

  std::int32_t driver_version;
  char cudart[16];      // static | shared | both | none
  char passed_by[256];  // objects whose CUDA calls no hook saw; known at the end
  char config_path[512];
  char config_sha256[72];
  std::uint32_t config_text_bytes, config_text_dropped;
  std::uint32_t config_warnings;
  std::uint32_t closing;  // set before, `end` follows
  char config_text[8192];
  std::uint32_t categories_bytes;
  char categories[category_bytes];  // see categories.hpp

  std::uint32_t hook_count, node_count;
  std::uint32_t nodes_share_the_last;  // 1 once there were more parts of chains than rows
  std::uint32_t shards_used;           // shards [0, shards_used) may hold counts
  std::uint32_t shards_in_memory;      // of these, not in the file: lost when the process is killed
  std::uint64_t failures_total;
  std::uint64_t misuses_total;
  std::uint64_t sites_dropped;
  std::uint64_t sampled_sites;
  std::uint64_t sample_every;   // bytes; 0: no samples
  std::uint64_t unbuilt_total;  // chains that could not be built; their memory goes to the driver
  char unbuilt[240];            // of the first one, the device and why
  char recording_path[512];     // empty: nothing was recorded
  char recording_stopped[240];  // why it ended before the process; empty: it did not
  std::uint32_t module_count;
  std::uint32_t library_count;             // places [1, library_count) have a path
  std::uint32_t sites_in_use;              // 1 once some resource notes call sites
  std::uint32_t python_in_use;             // 1 once a line of Python code was noted
  std::uint32_t phase_count;               // places [0, phase_count) may have a name, and the last
  std::uint32_t phases_in_use;             // 1 once the program named a phase
  std::uint64_t phases_seen_ns;            // when one was entered or left last, by the monotonic clock
  std::uint64_t phases_unmeasured;         // entered when max_open_phases were open
  std::uint8_t detail_present[max_nodes];  // 1 once that node keeps exact figures
  end_record end;
};

struct alignas(4096) fixed_part {
  page_header head;
  hook_entry hooks[max_hooks];
  node_entry nodes[max_nodes];
  device_entry devices[max_devices];
  device_gauges gauges[max_devices];
  failure_entry failures[max_failures];
  misuse_entry misuses[max_misuses];
  library_entry libraries[max_libraries];
  library_gauges library_gauges_of[max_devices][max_libraries];
  std::uint32_t shard_state[max_shards];  // see shards.cpp
};

// Page-aligned parts are given disk space one by one, when first used.
struct alignas(4096) device_timeline {
  timeline_sample samples[timeline_samples];
};
struct alignas(4096) call_site_table {
  module_entry modules[max_modules];
  call_site_entry sites[max_call_sites];
};
struct alignas(4096) python_table {
  python_file_entry files[max_python_files];
  python_line_entry lines[max_python_lines];
};
struct alignas(4096) phase_table {
  phase_entry phases[max_phases];
  open_phase open[max_open_phases];
};
struct node_detail {
  node_gauges gauges;
  size_bucket sizes[size_buckets];  // as asked
};
struct alignas(4096) node_detail_slot {
  node_detail figures;
};
struct alignas(4096) shard_slot {
  shard counters;
};

struct page {
  fixed_part fixed;
  device_timeline timelines[max_devices];
  call_site_table callers;
  python_table python;
  node_detail_slot details[max_nodes];
  shard_slot shards[max_shards];
  phase_table phases;
};

}  // namespace gpumem::stats
