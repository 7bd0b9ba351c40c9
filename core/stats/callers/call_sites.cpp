// See call_sites.hpp. An open-addressing table; the key is a 64-bit hash of node and frames, and is written
// last. Two sites with the same hash count as one: with 2048 sites that happens once in 10^13 programs.
#include "core/stats/callers/call_sites.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>

#include "core/base/threads/walk_stack.hpp"
#include "core/stats/callers/python/frames.hpp"
#include "core/stats/page/holdings.hpp"
#include "core/stats/page/page_state.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::stats {
namespace {

static_assert((max_call_sites & (max_call_sites - 1)) == 0);

// What tells a site from others of its node.
struct place {
  std::span<void const* const> frames;
  std::span<python_line const> lines = {};
  char thread[sizeof call_site_entry::thread] = {};
};

std::uint64_t key_of(std::size_t node, place const& of) noexcept {
  std::uint64_t key = node + 1;
  auto const mix = [&key](std::uint64_t value) {
    key = (key ^ value) * 0x9e3779b97f4a7c15ull;
    key ^= key >> 29;
  };
  for (void const* frame : of.frames) mix(reinterpret_cast<std::uint64_t>(frame));
  for (python_line line : of.lines) mix(line);
  if (of.thread[0] != '\0') {
    std::uint64_t name[2];
    static_assert(sizeof name == sizeof of.thread);
    std::memcpy(name, of.thread, sizeof name);
    mix(name[0]), mix(name[1]);
  }
  return key != 0 ? key : 1;
}

// The entry of this key, or the free one where it belongs; null when neither is there.
call_site_entry* probe(page& now, std::uint64_t key) noexcept {
  for (std::size_t i = 0; i < max_call_sites; ++i) {
    call_site_entry& entry = now.callers.sites[(key + i) & (max_call_sites - 1)];
    std::uint64_t const there = std::atomic_ref<std::uint64_t>(entry.key).load(std::memory_order_acquire);
    if (there == key || there == 0) return &entry;
  }
  return nullptr;
}

call_site number_of(page& now, call_site_entry const& entry) noexcept {
  return static_cast<call_site>(&entry - now.callers.sites) + 1;
}

void add_shared(std::uint64_t& counter, std::uint64_t amount) noexcept {
  std::atomic_ref<std::uint64_t>(counter).fetch_add(amount, std::memory_order_relaxed);
}

std::uint32_t tables_open(page& now) noexcept {
  return std::atomic_ref<std::uint32_t>(now.fixed.head.sites_in_use).load(std::memory_order_acquire);
}

bool has_room(page& now, std::size_t node, std::span<void const* const> frames) noexcept {
  return node < first_sample_node || frames.empty() || get(now.fixed.head.sampled_sites) < max_sampled_sites;
}

call_site_entry* entry_of(call_site site) noexcept {
  page* const now = current_page();
  if (now == nullptr || site == no_site || site > max_call_sites) return nullptr;
  return &now->callers.sites[site - 1];
}

call_site site_of(std::size_t node, place const& at) noexcept {
  page* const now = current_page();
  if (now == nullptr || tables_open(*now) == 0) return no_site;
  std::uint64_t const key = key_of(node, at);
  call_site_entry* const seen = probe(*now, key);
  if (seen != nullptr && std::atomic_ref<std::uint64_t>(seen->key).load(std::memory_order_acquire) == key) {
    return number_of(*now, *seen);
  }
  if (!has_room(*now, node, at.frames)) return no_site;
  for (void const* frame : at.frames) module_of(frame);  // before the lock, which it takes itself
  locked guard;
  call_site_entry* const entry = probe(*now, key);
  if (entry == nullptr) {
    add_shared(now->fixed.head.sites_dropped, 1);
    return no_site;
  }
  if (entry->key == key) return number_of(*now, *entry);
  if (node >= first_sample_node) note_sampled_site(*now, number_of(*now, *entry));
  entry->node = static_cast<std::uint32_t>(node);
  entry->frame_count = static_cast<std::uint32_t>(std::min(at.frames.size(), most_frames));
  for (std::size_t i = 0; i < entry->frame_count; ++i) {
    entry->frames[i] = reinterpret_cast<std::uint64_t>(at.frames[i]);
  }
  std::copy_n(at.lines.begin(), std::min(at.lines.size(), most_python_lines), entry->python);
  std::memcpy(entry->thread, at.thread, sizeof entry->thread);
  std::atomic_ref<std::uint64_t>(entry->key).store(key, std::memory_order_release);
  return number_of(*now, *entry);
}

}  // namespace

call_site site_of(std::size_t node, std::span<void const* const> frames) noexcept {
  return site_of(node, place{.frames = frames});
}

call_site site_of_stack(std::size_t node, void const* caller) noexcept {
  void const* frames[most_frames];
  python_line lines[most_python_lines];
  place here{.frames = {frames, base::walk_stack(caller, frames)}};
  here.lines = {lines, python_lines_here(lines)};
  if (here.lines.empty() && python::is_here()) ::prctl(PR_GET_NAME, here.thread);
  return site_of(node, here);
}

void count_allocation(call_site site, std::uint64_t bytes) noexcept {
  call_site_entry* const entry = entry_of(site);
  if (entry == nullptr) return;
  add_shared(entry->allocations, 1);
  add_shared(entry->allocated_bytes, bytes);
}

void count_free(call_site site, std::uint64_t bytes) noexcept {
  call_site_entry* const entry = entry_of(site);
  if (entry == nullptr) return;
  add_shared(entry->frees, 1);
  add_shared(entry->freed_bytes, bytes);
}

}  // namespace gpumem::stats
