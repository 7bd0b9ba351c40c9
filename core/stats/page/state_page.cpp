// See state_page.hpp: opening, describing, registering, closing. Shards are in shards.cpp, samples in
// timeline.cpp.
#include "core/stats/page/state_page.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/base/clock.hpp"
#include "core/base/files/sha256.hpp"
#include "core/base/log/log.hpp"
#include "core/base/threads/backoff.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/stats/page/describe_process.hpp"
#include "core/stats/page/holdings.hpp"
#include "core/stats/page/in_use.hpp"
#include "core/stats/page/page_state.hpp"

namespace gpumem::stats {

constinit page_state state;

namespace {

constinit device_gauges gauges_before_page[max_devices]{};

template <std::size_t size>
void copy_text(char (&target)[size], std::string_view text) noexcept {
  std::size_t const length = std::min(size - 1, text.size());
  std::memcpy(target, text.data(), length);
  target[length] = '\0';
}

void lay_out(page& page) noexcept {
  page_header& head = page.fixed.head;
  head.version = layout_version;
  head.header_bytes = sizeof(page_header);
  head.file_bytes = sizeof(stats::page);
  head.hook_offset = offsetof(fixed_part, hooks);
  head.node_offset = offsetof(fixed_part, nodes);
  head.device_offset = offsetof(fixed_part, devices);
  head.gauge_offset = offsetof(fixed_part, gauges);
  head.failure_offset = offsetof(fixed_part, failures);
  head.timeline_offset = offsetof(stats::page, timelines);
  head.shard_offset = offsetof(stats::page, shards);
  head.shard_stride = sizeof(shard_slot);
  head.module_offset = offsetof(stats::page, callers.modules);
  head.site_offset = offsetof(stats::page, callers.sites);
  head.detail_offset = offsetof(stats::page, details);
  head.detail_stride = sizeof(node_detail_slot);
  head.misuse_offset = offsetof(fixed_part, misuses);
  head.python_file_offset = offsetof(stats::page, python.files);
  head.python_line_offset = offsetof(stats::page, python.lines);
  head.phase_offset = offsetof(stats::page, phases.phases);
  head.open_phase_offset = offsetof(stats::page, phases.open);
  head.library_offset = offsetof(fixed_part, libraries);
  head.library_gauge_offset = offsetof(fixed_part, library_gauges_of);
  head.hook_slots = max_hooks, head.device_slots = max_devices, head.node_slots = max_nodes;
  head.bucket_slots = size_buckets, head.shard_slots = max_shards;
  head.failure_slots = max_failures, head.sample_slots = timeline_samples;
  head.module_slots = max_modules, head.site_slots = max_call_sites, head.misuse_slots = max_misuses;
  head.library_slots = max_libraries;
  head.python_file_slots = max_python_files, head.python_line_slots = max_python_lines;
  head.phase_slots = max_phases, head.open_phase_slots = max_open_phases;
#define GPUMEM_HOOK_FIELD(name, unit, meaning) copy_text(head.hook_names[head.hook_fields++].text, #name);
#define GPUMEM_DEVICE_FIELD(name, unit, meaning) \
  copy_text(head.device_names[head.device_fields++].text, #name);
#define GPUMEM_DEVICE_WORD(name) copy_text(head.device_names[head.device_fields++].text, #name);
#define GPUMEM_NODE_FIELD(name, unit, meaning) copy_text(head.node_names[head.node_fields++].text, #name);
#define GPUMEM_DEVICE_GAUGE(name, unit, meaning) copy_text(head.gauge_names[head.gauge_fields++].text, #name);
#define GPUMEM_NODE_GAUGE(name, unit, meaning) \
  copy_text(head.node_gauge_names[head.node_gauge_fields++].text, #name);
#include "core/stats/page/fields.def"
#undef GPUMEM_HOOK_FIELD
#undef GPUMEM_DEVICE_FIELD
#undef GPUMEM_NODE_FIELD
#undef GPUMEM_DEVICE_GAUGE
#undef GPUMEM_NODE_GAUGE
}

// What the first thread writes on the first device beside the fixed part. To ask for its space by itself,
// later, would take an open, a look and a close more for each, inside the program's first allocation.
constexpr file_part first_parts[page_file::most_parts] = {
    {0, sizeof(fixed_part)},
    {offsetof(page, timelines), sizeof(device_timeline)},
    {offsetof(page, shards), sizeof(shard_slot)},
};

// A page of memory appears when it is first written, and each costs the program's first allocation more than
// all that is counted in it. The parts that it writes are here from the start.
void make_first_pages(page& made) noexcept {
  constexpr std::size_t page_bytes = 4096;
  fixed_part& fixed = made.fixed;
  void* const fixed_parts[] = {&fixed.nodes[0],           &fixed.devices[0],
                               &fixed.gauges[0],          &fixed.libraries[1],
                               &fixed.head.library_count, &fixed.library_gauges_of[0][0]};
  auto const make = [](void* place) { *static_cast<char volatile*>(place) = '\0'; };  // as it is
  for (void* const part : fixed_parts) make(part);
  for (file_part const& part : std::span(first_parts).subspan(1)) {
    if (!state.file.has_space_for(part.offset, part.bytes)) continue;  // writing there would be SIGBUS
    for (std::size_t at = 0; at < part.bytes; at += page_bytes)
      make(reinterpret_cast<char*>(&made) + part.offset + at);
  }
}

page* map_page(unsigned& exec_no) noexcept {
  char directory[path_limit];
  char const* reason = "its name is too long, or its folder is gone";
  void* base = nullptr;
  if (state_directory(directory)) {
    base = create_and_map(directory, sizeof(page), first_parts, state.file, exec_no, reason);
  }
  if (base != nullptr) return static_cast<page*>(base);
  char text[1024];
  std::snprintf(
      text, sizeof text,
      "no state page in %.512s: %s; counting goes on in memory, but a killed process leaves no report "
      "(GPUMEM_STATE_DIR names another folder)",
      directory, reason);
  if (!state.warned.exchange(true)) base::log_line(base::log_level::warn, text);
  base = ::mmap(nullptr, sizeof(page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
  return base == MAP_FAILED ? nullptr : static_cast<page*>(base);
}

}  // namespace

locked::locked() noexcept {
  base::wait_until([] { return !state.lock.test_and_set(std::memory_order_acquire); });
}

bool back_part(page& page, void const* part, std::size_t bytes) noexcept {
  auto const offset =
      static_cast<std::size_t>(static_cast<char const*>(part) - reinterpret_cast<char const*>(&page));
  base::uncancelled const held;
  char const* reason = "";
  if (back_or_replace(state.file, &page, offset, bytes, reason)) return true;
  if (!state.warned.exchange(true)) {
    char text[1024];
    std::snprintf(
        text, sizeof text,
        "the state page %.512s cannot grow: %s; some counters are kept in memory only, and are lost if "
        "the process is killed (GPUMEM_STATE_DIR names another folder)",
        state.file.path, reason);
    base::log_line(base::log_level::warn, text);
  }
  return false;
}

bool open_page(open_options const& options) noexcept {
  shard* mine = nullptr;
  {
    locked guard;
    if (state.active.load(std::memory_order_relaxed) != nullptr) return state.file.path[0] != '\0';
    unsigned exec_no = 0;
    page* const made = map_page(exec_no);
    if (made == nullptr) return false;  // not even 17 MiB of addresses: the static shard goes on
    lay_out(*made);
    make_first_pages(*made);
    page_header& head = made->fixed.head;
    head.exec_no = exec_no;
    head.opened_mono_ns = base::now_ns();
    describe_process(head);
    copy_text(head.tool_version, options.tool_version);
    copy_text(head.run_id, options.run_id);
    copy_text(head.cudart, "unknown");
    head.hook_count = static_cast<std::uint32_t>(std::min(options.hooks.size(), max_hooks));
    for (std::size_t i = 0; i < head.hook_count; ++i) {
      copy_text(made->fixed.hooks[i].symbol, options.hooks[i].symbol);
      copy_text(made->fixed.hooks[i].route, options.hooks[i].route);
    }
    // The magic comes last: a reader takes a page without it for one that is still being made.
    std::atomic_ref<std::uint64_t>(head.magic).store(page_magic, std::memory_order_release);
    state.active.store(made, std::memory_order_release);
  }
  mine = &attach_shard();
  take_over_fallback(mine);
  return state.file.path[0] != '\0';
}

page* current_page() noexcept {
  return state.active.load(std::memory_order_acquire);
}

std::uint64_t elapsed_ns() noexcept {
  page const* const now = current_page();
  return now == nullptr ? 0 : base::now_ns() - now->fixed.head.opened_mono_ns;
}

void describe_driver(int version, std::string_view cudart) noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  locked guard;
  now->fixed.head.driver_version = version;
  copy_text(now->fixed.head.cudart, cudart);
}

void describe_passed_by(std::string_view objects) noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  locked guard;
  copy_text(now->fixed.head.passed_by, objects);
}

void describe_config(std::string_view path, std::string_view text, unsigned warnings) noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  std::string digest;
  try {
    digest = base::sha256(text);
  } catch (...) {  // out of host memory: a report without the digest
  }
  locked guard;
  page_header& head = now->fixed.head;
  copy_text(head.config_path, path);
  copy_text(head.config_sha256, digest);
  copy_text(head.config_text, text);
  head.config_text_bytes = static_cast<std::uint32_t>(std::min(text.size(), sizeof head.config_text - 1));
  head.config_text_dropped = static_cast<std::uint32_t>(text.size()) - head.config_text_bytes;
  head.config_warnings = warnings;
}

void describe_categories(std::string_view packed) noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  locked guard;
  page_header& head = now->fixed.head;
  head.categories_bytes = static_cast<std::uint32_t>(std::min(packed.size(), sizeof head.categories));
  std::ranges::copy(packed.substr(0, head.categories_bytes), head.categories);
}

std::size_t register_node(std::string_view name, std::string_view type, unsigned depth, int device,
                          std::string_view route, std::string_view options) noexcept {
  page* const now = current_page();
  if (now == nullptr) return max_nodes - 1;
  locked guard;
  node_entry entry{};
  copy_text(entry.name, name);
  copy_text(entry.type, type);
  copy_text(entry.route, route);
  copy_text(entry.options, options);
  entry.depth = depth;
  entry.device = device;
  std::uint32_t& count = now->fixed.head.node_count;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::memcmp(&now->fixed.nodes[i], &entry, sizeof entry) == 0) return i;
  }
  if (count == max_nodes) {
    now->fixed.head.nodes_share_the_last = 1;
    return max_nodes - 1;
  }
  now->fixed.nodes[count] = entry;
  std::atomic_ref<std::uint32_t>(count).store(count + 1, std::memory_order_release);
  return count - 1;
}

std::size_t register_device(int ordinal, std::string_view name, std::string_view uuid,
                            std::uint64_t total) noexcept {
  std::size_t const slot = device_slot(ordinal);
  page* const now = current_page();
  set(gauges(ordinal).total, total);
  if (now == nullptr) return slot;
  locked guard;
  device_entry& entry = now->fixed.devices[slot];
  if (ordinal > 0) entry.highest = std::max(entry.highest, static_cast<std::uint64_t>(ordinal));
  if (get(entry.present) != 0) return slot;
  copy_text(entry.name, name);
  copy_text(entry.uuid, uuid);
  back_part(*now, &now->timelines[slot], sizeof(device_timeline));
  std::atomic_ref<std::uint64_t>(entry.present).store(1, std::memory_order_release);
  return slot;
}

bool is_registered(int device) noexcept {
  page* const now = current_page();
  return now != nullptr && get(now->fixed.devices[device_slot(device)].present) != 0;
}

void note_registered_ahead(int device) noexcept {
  page* const now = current_page();
  if (now != nullptr) set(now->fixed.devices[device_slot(device)].present, registered_ahead);
}

device_gauges& gauges(int device) noexcept {
  page* const now = current_page();
  return now == nullptr ? gauges_before_page[device_slot(device)] : now->fixed.gauges[device_slot(device)];
}

library_gauges& library_gauges_of(int device, std::uint32_t library) noexcept {
  static constinit library_gauges before_page{};
  page* const now = current_page();
  if (now == nullptr) return before_page;
  return now->fixed.library_gauges_of[device_slot(device)][library % max_libraries];
}

void note_failure(failure const& what) noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  auto const number = std::atomic_ref<std::uint64_t>(now->fixed.head.failures_total).fetch_add(1);
  if (number >= max_failures) return;
  failure_entry& entry = now->fixed.failures[number];
  entry.t_ns = elapsed_ns();
  entry.bytes = what.bytes;
  entry.stream = what.stream;
  entry.in_use = what.in_use;
  entry.cached = what.cached;
  entry.largest_free = what.largest_free;
  entry.thread = static_cast<std::uint32_t>(::gettid());
  entry.code = what.code;
  entry.hook = what.hook;
  entry.device = static_cast<std::uint16_t>(device_slot(what.device));
  entry.refused_by = what.refused_by;
  copy_text(entry.reason, what.reason);
  entry.held = largest_holders(*now, device_slot(what.device), entry.holders);
  entry.sampled = largest_sites(*now, device_slot(what.device), entry.sites);
  entry.asked_at = what.asked_at;
  entry.phase = what.phase;
  if (what.free != nullptr) {
    std::ranges::copy(what.free->rows, entry.free);
    entry.free_counted = what.free->all ? 1 : 2;
  }
  std::atomic_ref<std::uint64_t>(entry.ready).store(1, std::memory_order_release);
}

std::uint64_t failures_so_far() noexcept {
  page* const now = current_page();
  return now == nullptr ? 0 : std::atomic_ref<std::uint64_t>(now->fixed.head.failures_total).load();
}

void note_unbuilt(std::string_view what) noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  locked guard;
  page_header& head = now->fixed.head;
  if (head.unbuilt_total == 0) copy_text(head.unbuilt, what);
  std::atomic_ref<std::uint64_t>(head.unbuilt_total).fetch_add(1);
}

void describe_recording(std::string_view path) noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  locked guard;
  copy_text(now->fixed.head.recording_path, path);
}

void note_recording_stopped(std::string_view why) noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  locked guard;
  copy_text(now->fixed.head.recording_stopped, why);
}

void drop_in_child() noexcept {
  page* const parents = state.active.exchange(nullptr);
  if (parents != nullptr) {
    // Fresh memory at the old place, not a hole: whoever still holds a reference must not crash, nor reach
    // the parent.
    ::mmap(parents, sizeof(page), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  }
  forget_own_shard();
  take_over_fallback(nullptr);
  std::memset(gauges_before_page, 0, sizeof gauges_before_page);
  moves_begun.store(moves_ended.load());
  state.file = page_file{};
  let_go(state.aside);
  state.warned.store(false);
  state.lock.clear();
}

void close_page(end_record const& end) noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  end_record record = end;
  record.duration_ns = elapsed_ns();
  now->fixed.head.end = record;
  std::atomic_ref<std::uint32_t>(now->fixed.head.closing).store(1, std::memory_order_release);
}

void reopen_page() noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  std::atomic_ref<std::uint32_t>(now->fixed.head.closing).store(0, std::memory_order_release);
  now->fixed.head.end = end_record{};
  locked guard;
  unsigned exec_no = now->fixed.head.exec_no;
  // What is in memory only has no place in a file that is made anew.
  bool const again = !state.warned.load() && make_again(state.aside, now, sizeof(page), state.file, exec_no);
  if (again) now->fixed.head.exec_no = exec_no;
  let_go(state.aside);
}

bool can_be_reported_better() noexcept {
  page const* const now = current_page();
  if (now == nullptr || state.file.path[0] == '\0') return false;
  page_header const& head = now->fixed.head;
  return head.sites_in_use != 0 && head.shards_in_memory == 0;
}

void remove_page_file() noexcept {
  if (state.file.path[0] == '\0') return;
  ::unlink(state.file.path);
  state.file = page_file{};
}

void set_page_file_aside() noexcept {
  hold(state.file, state.aside);
  remove_page_file();
}

}  // namespace gpumem::stats
