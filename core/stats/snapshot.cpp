// See snapshot.hpp. Every size and offset of a page is checked before use; counters are found by their names,
// so that a page written by another version with more or fewer of them is still read right.
#include "core/stats/snapshot.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/base/text/printable.hpp"
#include "core/base/threads/sleep.hpp"
#include "core/stats/callers/libraries.hpp"
#include "core/stats/page/state_page.hpp"
#include "core/stats/page_reader.hpp"
#include "core/stats/snapshot_phases.hpp"
#include "core/stats/snapshot_words.hpp"

namespace gpumem::stats {
namespace {

// Without pointers, which every process would relocate.
constexpr field_name hook_fields[] = {
#define GPUMEM_HOOK_FIELD(name, unit, meaning) {#name},
#include "core/stats/page/fields.def"
#undef GPUMEM_HOOK_FIELD
};
constexpr field_name device_fields[] = {
#define GPUMEM_DEVICE_FIELD(name, unit, meaning) {#name},
#define GPUMEM_DEVICE_WORD(name) {"no counter"},
#include "core/stats/page/fields.def"
#undef GPUMEM_DEVICE_FIELD
};
constexpr field_name node_fields[] = {
#define GPUMEM_NODE_FIELD(name, unit, meaning) {#name},
#include "core/stats/page/fields.def"
#undef GPUMEM_NODE_FIELD
};
constexpr field_name node_gauge_fields[] = {
#define GPUMEM_NODE_GAUGE(name, unit, meaning) {#name},
#include "core/stats/page/fields.def"
#undef GPUMEM_NODE_GAUGE
};
constexpr field_name gauge_fields[] = {
#define GPUMEM_DEVICE_GAUGE(name, unit, meaning) {#name},
#include "core/stats/page/fields.def"
#undef GPUMEM_DEVICE_GAUGE
};

constexpr std::size_t tally_words = site_tallies * sizeof(site_tally) / sizeof(std::uint64_t);
constexpr int most_looks = 1000;  // at gauges that are being changed: 100 ms

struct damaged {
  std::string what;
};

template <std::size_t size>
std::string text_of(char const (&text)[size]) {
  return std::string(text, ::strnlen(text, size));
}

// One list of counters as the page has it: the position of each of its words in our own struct, or none.
class field_map {
 public:
  template <std::size_t known>
  field_map(field_name const (&names)[max_fields], std::uint32_t count, field_name const (&ours)[known]) {
    if (count > max_fields) throw damaged{"it names " + std::to_string(count) + " counters in one list"};
    for (std::uint32_t i = 0; i < count; ++i) {
      std::string const name = text_of(names[i].text);
      auto const found =
          std::ranges::find(ours, name, [](field_name const& its) { return text_of(its.text); });
      places_.push_back(found == std::end(ours) ? none : static_cast<std::size_t>(found - std::begin(ours)));
    }
  }
  std::size_t words() const noexcept { return places_.size(); }

  // Where the page has it; words() where it has not.
  std::size_t place_of(std::size_t ours) const noexcept {
    return static_cast<std::size_t>(std::find(places_.begin(), places_.end(), ours) - places_.begin());
  }

  template <typename counters>
  void add_to(counters& target, std::uint64_t const* from) const noexcept {
    auto* const words = reinterpret_cast<std::uint64_t*>(&target);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i] != none) words[places_[i]] += from[i];
    }
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  std::vector<std::size_t> places_;
};

class parser {
 public:
  explicit parser(page_reader& source) : source_(source), head_(std::make_unique<page_header>()) {}

  snapshot parse() {
    read_header();
    copy_identity();
    field_map const hooks(head_->hook_names, head_->hook_fields, hook_fields);
    field_map const devices(head_->device_names, head_->device_fields, device_fields);
    field_map const nodes(head_->node_names, head_->node_fields, node_fields);
    field_map const gauges(head_->gauge_names, head_->gauge_fields, gauge_fields);
    hooks_.resize(head_->hook_slots);
    devices_.resize(head_->device_slots);
    nodes_.resize(head_->node_slots);
    add_shards(hooks, devices, nodes);
    take_devices(gauges);
    if (!read_phases(source_, *head_, result_)) throw damaged{"it is truncated"};
    take_hooks();
    take_nodes();
    take_failures();
    take_callers();
    return std::move(result_);
  }

 private:
  template <typename entry>
  entry read(std::uint64_t offset) {
    entry value{};
    if (!source_.read(offset, &value, sizeof value)) throw damaged{"it is truncated"};
    return value;
  }

  void read_header() {
    if (!source_.read(0, head_.get(), sizeof *head_)) throw damaged{"it is too short for a state page"};
    if (head_->magic != page_magic) throw damaged{"it is no state page of gpumem, or not complete yet"};
    if (head_->version != layout_version || head_->header_bytes != sizeof(page_header)) {
      throw damaged{"its layout is version " + std::to_string(head_->version) + ", written by gpumem " +
                    base::printable(text_of(head_->tool_version)) + "; this program reads version " +
                    std::to_string(layout_version)};
    }
    constexpr std::uint32_t most = 4096;
    for (std::uint32_t slots :
         {head_->hook_slots, head_->device_slots, head_->node_slots, head_->bucket_slots, head_->shard_slots,
          head_->failure_slots, head_->sample_slots, head_->module_slots, head_->site_slots,
          head_->misuse_slots, head_->library_slots, head_->python_file_slots, head_->python_line_slots,
          head_->phase_slots, head_->open_phase_slots}) {
      if (slots == 0 || slots > most) throw damaged{"its header is damaged"};
    }
    if (head_->shards_used > head_->shard_slots || head_->hook_count > head_->hook_slots ||
        head_->node_count > head_->node_slots || head_->module_count > head_->module_slots ||
        head_->shard_stride > 1u << 20 || head_->shard_offset > 1u << 30) {
      throw damaged{"its header is damaged"};
    }
  }

  void copy_identity() {
    page_header const& head = *head_;
    snapshot& to = result_;
    to.tool_version = text_of(head.tool_version), to.host = text_of(head.host),
    to.run_id = text_of(head.run_id);
    to.exe = text_of(head.exe), to.cwd = text_of(head.cwd), to.cudart = text_of(head.cudart);
    to.passed_by = text_of(head.passed_by);
    to.config_path = text_of(head.config_path), to.config_sha256 = text_of(head.config_sha256);
    to.config_text = text_of(head.config_text);
    to.config_text_dropped = head.config_text_dropped, to.config_warnings = head.config_warnings;
    to.categories =
        unpacked({head.categories, std::min<std::size_t>(head.categories_bytes, sizeof head.categories)});
    copy_words(head, to);
    to.pid = head.pid, to.ppid = head.ppid, to.uid = head.uid, to.exec_no = head.exec_no;
    to.start_ticks = head.start_ticks, to.pid_namespace = head.pid_namespace;
    to.opened_wall_ns = head.opened_wall_ns, to.opened_mono_ns = head.opened_mono_ns;
    to.driver_version = head.driver_version;
    to.shards_used = head.shards_used, to.shards_in_memory = head.shards_in_memory;
    to.shards_shared = head.shards_used == head.shard_slots;
    to.nodes_shared = head.nodes_share_the_last != 0;
    to.closed = head.closing != 0;
    to.end = head.end;
    if (to.end.kind > end_kind::exec) to.end.kind = end_kind::none;
    to.failures_total = head.failures_total;
    to.unbuilt_total = head.unbuilt_total, to.unbuilt = text_of(head.unbuilt);
    to.recording_path = text_of(head.recording_path), to.recording_stopped = text_of(head.recording_stopped);
  }

  void add_shards(field_map const& hooks, field_map const& devices, field_map const& nodes) {
    std::size_t const libraries = std::size_t{head_->device_slots} * head_->library_slots;
    constexpr std::size_t before = offsetof(shard, devices) / sizeof(std::uint64_t);
    std::size_t const words = before + hooks_.size() * hooks.words() + devices_.size() * devices.words() +
                              nodes_.size() * nodes.words() + head_->bucket_slots * 2 + libraries * 2 +
                              tally_words;
    if (words * 8 > head_->shard_stride) throw damaged{"its header is damaged"};
    libraries_.resize(libraries);
    std::vector<std::uint64_t> shard_words(words);
    for (std::uint32_t i = 0; i < head_->shards_used; ++i) {
      if (!source_.read(head_->shard_offset + i * head_->shard_stride, shard_words.data(), words * 8))
        throw damaged{"it is truncated"};
      std::uint64_t const* at = shard_words.data() + before;
      for (auto& device : devices_) devices.add_to(device, at), at += devices.words();
      for (auto& hook : hooks_) hooks.add_to(hook, at), at += hooks.words();
      for (auto& node : nodes_) nodes.add_to(node, at), at += nodes.words();
      for (std::uint32_t b = 0; b < head_->bucket_slots; ++b, at += 2) {
        size_bucket& bucket = result_.sizes[std::min<std::size_t>(b, size_buckets - 1)];
        bucket.count += at[0];
        bucket.bytes += at[1];
      }
      for (auto& library : libraries_) library.allocated += at[0], library.freed += at[1], at += 2;
      for (std::size_t t = 0; t < site_tallies; ++t, at += sizeof(site_tally) / 8) {
        site_tally tally;
        std::memcpy(&tally, at, sizeof tally);
        if (tally.site != 0 && tally.site <= head_->site_slots) tallies_.push_back(tally);
      }
    }
  }

  // With what threads have not added to it yet. Of a live process it may be seen twice, or not at all.
  void add_tallies(call_site_entry& entry, unsigned number) {
    for (site_tally const& tally : tallies_) {
      if (tally.site != number) continue;
      entry.allocations += tally.allocations;
      entry.allocated_bytes += tally.allocated_bytes;
      entry.freed_bytes += tally.freed_bytes;
    }
  }

  void take_sampled_site(call_site_entry entry, unsigned number, std::vector<module_entry> const& modules) {
    if (entry.node - first_sample_node >= head_->device_slots) return;
    add_tallies(entry, number);
    sampled_site_totals site{.number = number,
                             .device = static_cast<int>(entry.node - first_sample_node),
                             .samples = entry.allocations,
                             .now = difference(entry.allocated_bytes, entry.freed_bytes),
                             .at_highest = entry.peak_bytes,
                             .frames = frames_of(entry, modules),
                             .python = python_of(entry),
                             .thread = text_of(entry.thread)};
    result_.sampled_sites.push_back(std::move(site));
  }

  static std::uint64_t difference(std::uint64_t more, std::uint64_t less) noexcept {
    return more > less ? more - less : 0;
  }

  // Of one moment: the process may be changing them, for as long as its thread does not run. One that was
  // killed in the middle has changed its last.
  device_gauges read_gauges(field_map const& names, std::uint64_t offset) {
    std::uint64_t const number =
        offset + 8 * names.place_of(offsetof(device_gauges, changes) / sizeof(std::uint64_t));
    bool const is_told = number < offset + 8 * names.words();
    std::vector<std::uint64_t> words(names.words());
    for (int attempt = 0;; ++attempt) {
      std::uint64_t const before = is_told ? read<std::uint64_t>(number) : 0;
      std::atomic_thread_fence(std::memory_order_acquire);
      if (!source_.read(offset, words.data(), words.size() * 8)) throw damaged{"it is truncated"};
      std::atomic_thread_fence(std::memory_order_acquire);
      bool const whole = !is_told || (before % 2 == 0 && read<std::uint64_t>(number) == before);
      if (whole || attempt == most_looks) break;
      if (attempt > 10) base::sleep_for(50'000);
    }
    device_gauges found{};
    names.add_to(found, words.data());
    return found;
  }

  void take_devices(field_map const& gauges) {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      auto const entry = read<device_entry>(head_->device_offset + i * sizeof(device_entry));
      if (entry.present == 0 && devices_[i].allocated_blocks == 0 && devices_[i].out_of_memory == 0) continue;
      device_totals device;
      device.ordinal = static_cast<int>(i);
      device.highest_ordinal = static_cast<int>(std::max<std::uint64_t>(i, entry.highest));
      device.name = text_of(entry.name), device.uuid = text_of(entry.uuid);
      device.counters = devices_[i];
      device.gauges = read_gauges(gauges, head_->gauge_offset + i * gauges.words() * 8);
      if (entry.present == registered_ahead && !device.is_used() && head_->failures_total == 0) continue;
      device.now = ledger_now(device.counters, device.gauges);
      device.peak = ledger_at_peak(device.gauges);
      device.timeline_period_ns = entry.timeline_period_ns;
      std::uint64_t const samples = std::min<std::uint64_t>(entry.timeline_count, head_->sample_slots);
      std::uint64_t const line = head_->timeline_offset + i * sizeof(device_timeline);
      for (std::uint64_t s = 0; entry.present != 0 && s < samples; ++s) {
        device.timeline.push_back(read<timeline_sample>(line + s * sizeof(timeline_sample)));
      }
      take_libraries(device);
      result_.devices.push_back(std::move(device));
    }
  }

  std::string path_of(std::uint64_t library) {
    std::string path =
        text_of(read<library_entry>(head_->library_offset + library * sizeof(library_entry)).path);
    return library == other_libraries && path.empty() ? "(others)" : path;
  }

  void take_libraries(device_totals& device) {
    std::size_t const first = static_cast<std::size_t>(device.ordinal) * head_->library_slots;
    for (std::size_t i = 0; i < head_->library_slots; ++i) {
      auto const gauges =
          read<library_gauges>(head_->library_gauge_offset + (first + i) * sizeof(library_gauges));
      library_counters const& counted = libraries_[first + i];
      std::uint64_t const routed = counted.allocated > counted.freed ? counted.allocated - counted.freed : 0;
      if (counted.allocated == 0 && gauges.highest == 0 && gauges.observed == 0) continue;
      library_totals library{.path = path_of(i),
                             .routed = routed,
                             .observed = gauges.observed,
                             .highest = std::max(gauges.highest, routed + gauges.observed),
                             .peak_routed = gauges.peak_routed,
                             .peak_observed = gauges.peak_observed};
      device.libraries.push_back(std::move(library));
    }
  }

  void take_hooks() {
    for (std::uint32_t i = 0; i < head_->hook_count; ++i) {
      if (hooks_[i].calls == 0) continue;
      auto const entry = read<hook_entry>(head_->hook_offset + i * sizeof(hook_entry));
      // What chains only see by default was served by the chain of device memory ([route] pools).
      bool const by_choice = hooks_[i].served != 0 && text_of(entry.route) == "observed";
      result_.hooks.push_back(
          {text_of(entry.symbol), by_choice ? "device" : text_of(entry.route), hooks_[i]});
    }
  }

  void take_nodes() {
    field_map const gauges(head_->node_gauge_names, head_->node_gauge_fields, node_gauge_fields);
    std::vector<std::uint64_t> words(gauges.words() + 2 * size_buckets);
    for (std::uint32_t i = 0; i < head_->node_count; ++i) {
      auto const entry = read<node_entry>(head_->node_offset + i * sizeof(node_entry));
      node_totals node;
      node.name = text_of(entry.name), node.type = text_of(entry.type);
      node.route = text_of(entry.route), node.options = text_of(entry.options);
      node.depth = std::min(entry.depth, 16u);
      node.device = entry.device;
      node.counters = nodes_[i];
      if (i < max_nodes && head_->detail_present[i] != 0) {
        node.exact = true;
        if (!source_.read(head_->detail_offset + i * head_->detail_stride, words.data(), words.size() * 8))
          throw damaged{"it is truncated"};
        gauges.add_to(node.gauges, words.data());
        for (std::size_t bucket = 0; bucket < size_buckets; ++bucket) {
          node.sizes[bucket] = {words[gauges.words() + 2 * bucket], words[gauges.words() + 2 * bucket + 1]};
        }
      }
      result_.nodes.push_back(std::move(node));
    }
  }

  code_frame frame_of(std::uint64_t address, std::vector<module_entry> const& modules) {
    code_frame frame{.address = address, .library = {}};
    for (auto module = modules.rbegin(); module != modules.rend() && frame.library.empty(); ++module) {
      if (address < module->begin || address >= module->end) continue;
      frame.library = text_of(module->path);
      frame.file_offset = address - module->begin + module->file_offset;
    }
    return frame;
  }

  std::vector<code_frame> frames_of(call_site_entry const& entry, std::vector<module_entry> const& modules) {
    std::vector<code_frame> frames;
    for (std::size_t f = 0; f < std::min<std::size_t>(entry.frame_count, most_frames); ++f)
      frames.push_back(frame_of(entry.frames[f], modules));
    return frames;
  }

  std::vector<python_place> python_of(call_site_entry const& entry) {
    std::vector<python_place> places;
    for (std::uint16_t number : entry.python) {
      if (number == 0 || number > head_->python_line_slots || head_->python_in_use == 0) break;
      auto const line =
          read<python_line_entry>(head_->python_line_offset + (number - 1u) * sizeof(python_line_entry));
      if (line.file >= head_->python_file_slots) break;
      auto const file =
          read<python_file_entry>(head_->python_file_offset + line.file * sizeof(python_file_entry));
      places.push_back({text_of(file.path), text_of(line.function), line.line});
    }
    return places;
  }

  void take_callers() {
    result_.call_sites_dropped = head_->sites_dropped;
    result_.sample_every = head_->sample_every;
    result_.misuses_total = head_->misuses_total;
    if (head_->sites_in_use == 0) return;
    std::vector<module_entry> modules;
    for (std::uint32_t i = 0; i < head_->module_count; ++i)
      modules.push_back(read<module_entry>(head_->module_offset + i * sizeof(module_entry)));
    for (std::uint32_t i = 0; i < head_->site_slots; ++i) {
      auto const entry = read<call_site_entry>(head_->site_offset + i * sizeof(call_site_entry));
      if (entry.key != 0 && entry.node >= first_sample_node) take_sampled_site(entry, i + 1, modules);
      if (entry.key == 0 || entry.node >= result_.nodes.size()) continue;
      call_site_totals site{.number = i + 1,
                            .node = entry.node,
                            .allocations = entry.allocations,
                            .allocated_bytes = entry.allocated_bytes,
                            .frees = entry.frees,
                            .freed_bytes = entry.freed_bytes,
                            .frames = frames_of(entry, modules),
                            .python = python_of(entry),
                            .thread = text_of(entry.thread)};
      result_.call_sites.push_back(std::move(site));
    }
    std::uint64_t const kept = std::min<std::uint64_t>(head_->misuses_total, head_->misuse_slots);
    for (std::uint64_t i = 0; i < kept; ++i) {
      auto const entry = read<misuse_entry>(head_->misuse_offset + i * sizeof(misuse_entry));
      if (entry.ready != 1 || entry.kind > misuse_kind::damaged_zone) continue;
      result_.misuses.push_back({entry.kind, entry.node, entry.t_ns, entry.address, entry.bytes, entry.offset,
                                 entry.damaged, entry.here, entry.allocated_at, entry.freed_at,
                                 entry.thread});
    }
  }

  std::string phase_name_of(std::uint64_t number) {
    if (number == 0 || number > head_->phase_slots || head_->phases_in_use == 0) return {};
    auto const entry = read<phase_entry>(head_->phase_offset + (number - 1) * sizeof(phase_entry));
    return entry.ready == 1 ? text_of(entry.name) : std::string();
  }

  void take_failures() {
    std::uint64_t const kept = std::min<std::uint64_t>(result_.failures_total, head_->failure_slots);
    for (std::uint64_t i = 0; i < kept; ++i) {
      auto const entry = read<failure_entry>(head_->failure_offset + i * sizeof(failure_entry));
      if (entry.ready != 1) continue;
      failure_note note{entry.t_ns,
                        entry.bytes,
                        entry.stream,
                        entry.in_use,
                        entry.cached,
                        entry.largest_free,
                        entry.thread,
                        entry.code,
                        entry.device,
                        {},
                        text_of(entry.reason),
                        entry.refused_by,
                        entry.held,
                        {},
                        {},
                        entry.sampled,
                        static_cast<unsigned>(entry.asked_at),
                        phase_name_of(entry.phase)};
      std::ranges::copy(entry.free, note.free.begin());
      note.free_counted = entry.free_counted == 1 || entry.free_counted == 2;
      note.free_all = entry.free_counted == 1;
      for (holder_share const& one : entry.holders) {
        if (one.bytes != 0 && one.library < head_->library_slots)
          note.holders.push_back({path_of(one.library), one.bytes});
      }
      for (site_share const& one : entry.sites) {
        if (one.bytes != 0 && one.site <= head_->site_slots)
          note.sites.push_back({static_cast<unsigned>(one.site), one.bytes});
      }
      if (entry.hook < head_->hook_count) {
        note.symbol = text_of(read<hook_entry>(head_->hook_offset + entry.hook * sizeof(hook_entry)).symbol);
      }
      result_.failures.push_back(std::move(note));
    }
  }

  page_reader& source_;
  std::unique_ptr<page_header> head_;  // 30 KiB: not for a small thread's stack at exit
  snapshot result_;
  std::vector<hook_counters> hooks_;
  std::vector<device_counters> devices_;
  std::vector<node_counters> nodes_;
  std::vector<library_counters> libraries_;  // of each device
  std::vector<site_tally> tallies_;          // of all threads
};

}  // namespace

snapshot_result take_snapshot() {
  page* const now = current_page();
  if (now == nullptr) return {{}, "this process has no state page"};
  mapped_page_reader source(*now);
  try {
    snapshot taken = parser(source).parse();
    taken.looked_at_ns = base::now_ns();
    return {std::move(taken), {}};
  } catch (damaged const& reason) {
    return {{}, "the state page in memory: " + reason.what};
  }
}

snapshot_result read_snapshot(std::string const& path) {
  file_page_reader source(path);
  if (!source.error().empty()) return {{}, source.error()};
  try {
    return {parser(source).parse(), {}};
  } catch (damaged const& reason) {
    return {{}, path + ": " + reason.what};
  }
}

}  // namespace gpumem::stats
