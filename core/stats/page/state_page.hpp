// The state page of this process: where all counters live, so that a kill -9 loses none. Opened by the shim
// at the first CUDA call, dropped in a forked child, closed at exit; resources and router register and
// count through it. Any thread, also before a page exists (a static shard counts until then). Never on a
// hot path, except local() and add() of counters.hpp. No CUDA call, no signals. Where no file can be had
// (read-only, full disk, quota, limits) plain memory takes its place, with one warning.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/stats/page/layout.hpp"

namespace gpumem::stats {

struct hook_description {
  std::string_view symbol;
  std::string_view route;  // device | managed | host | free | observed
};

struct open_options {
  std::span<hook_description const>
      hooks;  // in the order of shim/symbols/symbols.def: the index is the hook number
  std::string_view tool_version;
  std::string_view run_id;  // GPUMEM_RUN_ID, empty outside `gpumem run`
};

// Opens the page, once; later calls do nothing. False when it had to be plain memory.
bool open_page(open_options const& options) noexcept;

// Null before open_page and in a forked child.
page* current_page() noexcept;
// No second thread of the process has used CUDA, as far as hooks see.
bool is_one_thread() noexcept;

// The place of a thread's counters among all; max_shards where they are not in the page.
inline std::size_t shard_number(page const& of, shard const& one) noexcept {
  auto const offset = reinterpret_cast<std::uintptr_t>(&one) - reinterpret_cast<std::uintptr_t>(of.shards);
  return offset < sizeof of.shards ? offset / sizeof(shard_slot) : max_shards;
}

// How many hooked calls of this thread are over, or of the threads that had its counters before: the same
// number is the same call. A hundred additions.
std::uint64_t calls_of_this_thread() noexcept;

// Nanoseconds since the page was opened; 0 before.
std::uint64_t elapsed_ns() noexcept;

// For the head of the report: the driver's version as cuDriverGetVersion says it and the CUDA runtime; the
// loaded objects whose calls no hook sees; the configuration with the count of its warnings.
void describe_driver(int version, std::string_view cudart) noexcept;
void describe_passed_by(std::string_view objects) noexcept;
void describe_config(std::string_view path, std::string_view text, unsigned warnings) noexcept;
void describe_categories(std::string_view packed) noexcept;  // see categories.hpp

// A node of a chain instance; returns its index in shard::nodes. The same node again gives the same index, so
// a chain rebuilt after a device reset goes on counting where it stopped. Register top first: the order is
// the report's.
std::size_t register_node(std::string_view name, std::string_view type, unsigned depth, int device,
                          std::string_view route, std::string_view options) noexcept;

// Whether it is there, and that it is there for a chain that nothing was asked of yet: no report shows it.
bool is_registered(int device) noexcept;
void note_registered_ahead(int device) noexcept;
// Returns the slot of device `ordinal` in shard::devices and the gauges.
std::size_t register_device(int ordinal, std::string_view name, std::string_view uuid,
                            std::uint64_t total) noexcept;
inline std::size_t device_slot(int ordinal) noexcept {
  return ordinal < 0 || static_cast<std::size_t>(ordinal) >= max_devices ? max_devices - 1
                                                                         : static_cast<std::size_t>(ordinal);
}
// Ask for it each time: the reference of a closed page or of a parent's page is no longer read by anyone.
device_gauges& gauges(int device) noexcept;
// The same for what one library holds there.
library_gauges& library_gauges_of(int device, std::uint32_t library) noexcept;
// Returns the new value.
inline std::uint64_t gauge_add(std::uint64_t& gauge, std::uint64_t amount) noexcept {
  return std::atomic_ref<std::uint64_t>(gauge).fetch_add(amount, std::memory_order_relaxed) + amount;
}
inline void gauge_subtract(std::uint64_t& gauge, std::uint64_t amount) noexcept {
  std::atomic_ref<std::uint64_t>(gauge).fetch_sub(amount, std::memory_order_relaxed);
}

// For the highest value of another gauge: never goes down, whichever thread comes last.
inline void gauge_raise(std::uint64_t& highest, std::uint64_t value) noexcept {
  std::atomic_ref<std::uint64_t> slot(highest);
  std::uint64_t seen = slot.load(std::memory_order_relaxed);
  while (seen < value && !slot.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

// Call after `reserved` changed, where a thread must_settle, and at other slow moments: adds up the shards,
// keeps highest_requested and the ledger of the peak, and puts a sample on the timeline.
void sample_device(int device) noexcept;
// The same for a thread that must_settle, unless another one's look deals out enough meanwhile.
void renew_share(int device) noexcept;
// From here on the highest requested bytes since the reset are those of now.
void reset_peak(int device) noexcept;
// The same as sample_device where observed memory has grown by more than 1 %, or 8 MiB, since.
void sample_if_grown(int device) noexcept;

// Blocks that nobody has and that may be cut, by size.
struct free_blocks {
  free_row rows[free_rows] = {};
  std::uint64_t left = 65536;  // so many more are looked at
  bool all = true;             // none was passed over
};

struct failure {
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
  std::uint64_t in_use = 0;
  std::uint64_t cached = 0;
  std::uint64_t largest_free = 0;
  int code = 0;  // CUresult
  std::uint16_t hook = 0;
  int device = 0;
  std::uint32_t refused_by = 0;       // driver::refused_by
  std::uint32_t asked_at = 0;         // stats::call_site
  std::uint32_t phase = 0;            // its place in the table of phases, from 1 on; 0: none was open
  free_blocks const* free = nullptr;  // null: not counted
  std::string_view reason;            // who refused, value, limit; at most 239 characters are kept
};
// For the report's FAILURES: all are counted, the first max_failures kept.
void note_failure(failure const& what) noexcept;
std::uint64_t failures_so_far() noexcept;

// A chain could not be built: `what` names it and says why.
void note_unbuilt(std::string_view what) noexcept;

// The file of this process's recording; and that it ended before the process, or never began.
void describe_recording(std::string_view path) noexcept;
void note_recording_stopped(std::string_view why) noexcept;

// For the child side of fork: from here on nothing reaches the parent's page; old references stay harmless.
void drop_in_child() noexcept;

// Writes how the process ended. Counting may go on; the page stays mapped.
void close_page(end_record const& end) noexcept;
// Takes the end back: an exec that failed after it had been announced. The page has a file again.
void reopen_page() noexcept;
// True if someone else can write this process's report from its page, and would tell more: it has call sites,
// and all of its counters are in the file.
bool can_be_reported_better() noexcept;
// Removes the page's file; call after the reports are written.
void remove_page_file() noexcept;
// The same before an exec: what is left of it goes when that succeeds.
void set_page_file_aside() noexcept;

}  // namespace gpumem::stats
