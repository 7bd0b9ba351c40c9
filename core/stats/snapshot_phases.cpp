// See snapshot_phases.hpp. The process may change the table meanwhile: what it adds when a phase ends may be
// missed for a moment, and differences never fall below 0.
#include "core/stats/snapshot_phases.hpp"

#include <algorithm>
#include <cstring>

namespace gpumem::stats {
namespace {

std::uint64_t difference(std::uint64_t more, std::uint64_t less) noexcept {
  return more > less ? more - less : 0;
}

// Of one that is open they count on.
phase_device figures_of(phase_figures const& from, bool is_open, device_totals const& whole) noexcept {
  phase_device one{.device = whole.ordinal,
                   .highest = from.highest,
                   .added = from.added,
                   .requests = from.requests,
                   .refusals = from.refusals,
                   .growths = from.growths};
  if (!is_open) return one;
  auto const& counted = whole.counters;
  one.requests += difference(counted.allocated_blocks + counted.out_of_memory, from.requests_before);
  one.refusals += difference(counted.out_of_memory, from.refusals_before);
  one.growths += difference(whole.gauges.growths, from.growths_before);
  return one;
}

void add_open(open_phase const& from, phase_totals& to) {
  if (from.is_within == 0) to.open_since_ns.push_back(from.began_ns);
  for (phase_device& one : to.devices) {
    phase_window const& window = from.devices[one.device];
    one.highest = std::max(one.highest, window.highest);
    one.added = std::max(one.added, difference(window.highest, window.began));
  }
}

bool saw_nothing(phase_device const& one) noexcept {
  return one.highest == 0 && one.requests == 0 && one.growths == 0;
}

}  // namespace

std::uint64_t phase_totals::inside_until(std::uint64_t until_ns) const noexcept {
  std::uint64_t sum = inside_ns;
  for (std::uint64_t const began : open_since_ns) sum += difference(until_ns, began);
  return sum;
}

bool read_phases(page_reader& source, page_header const& head, snapshot& to) {
  to.phases_unmeasured = head.phases_unmeasured;
  if (to.looked_at_ns == 0) to.looked_at_ns = head.phases_seen_ns;
  if (head.phases_in_use == 0) return true;
  std::vector<std::size_t> at(head.phase_slots);  // of each place the phase, from 1 on; 0: none
  for (std::size_t place = 0; place < head.phase_slots; ++place) {
    if (place >= head.phase_count && place + 1 != head.phase_slots) continue;
    phase_entry entry{};
    if (!source.read(head.phase_offset + place * sizeof entry, &entry, sizeof entry)) return false;
    if (entry.ready != 1) continue;
    phase_totals one{.name = std::string(entry.name, ::strnlen(entry.name, sizeof entry.name)),
                     .entered = entry.entered,
                     .inside_ns = entry.inside_ns,
                     .open = entry.open,
                     .open_since_ns = {},
                     .devices = {}};
    for (device_totals const& device : to.devices) {
      if (static_cast<std::size_t>(device.ordinal) < max_devices)
        one.devices.push_back(figures_of(entry.devices[device.ordinal], entry.open != 0, device));
    }
    to.phases.push_back(std::move(one));
    at[place] = to.phases.size();
  }
  for (std::size_t i = 0; i < head.open_phase_slots; ++i) {
    open_phase open{};
    if (!source.read(head.open_phase_offset + i * sizeof open, &open, sizeof open)) return false;
    if (open.phase == 0 || open.phase > at.size() || at[open.phase - 1] == 0) continue;
    add_open(open, to.phases[at[open.phase - 1] - 1]);
  }
  for (phase_totals& one : to.phases) std::erase_if(one.devices, saw_nothing);
  return true;
}

}  // namespace gpumem::stats
