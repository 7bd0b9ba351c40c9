// See page_names.hpp.
#include "core/recording/writer/page_names.hpp"

#include <algorithm>
#include <atomic>

#include "core/stats/callers/modules.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::recording {

static_assert(name_source::most_frames == stats::most_frames);

char const* page_names::library(unsigned id) noexcept {
  stats::page* const now = stats::current_page();
  if (now == nullptr || id == 0) return nullptr;
  std::atomic_ref<std::uint32_t> const count(now->fixed.head.library_count);
  return id < count.load(std::memory_order_acquire) ? now->fixed.libraries[id].path : nullptr;
}

std::size_t page_names::site(unsigned number, std::uint64_t (&addresses)[most_frames]) noexcept {
  stats::page* const now = stats::current_page();
  if (now == nullptr || number == 0 || number > stats::max_call_sites) return 0;
  stats::call_site_entry& entry = now->callers.sites[number - 1];
  if (std::atomic_ref<std::uint64_t>(entry.key).load(std::memory_order_acquire) == 0) return 0;
  std::size_t const count = std::min<std::size_t>(entry.frame_count, most_frames);
  std::copy_n(entry.frames, count, addresses);
  return count;
}

bool page_names::module(std::uint64_t address, module_name& found) noexcept {
  stats::page const* const now = stats::current_page();
  stats::module_entry const* const in = stats::module_of(reinterpret_cast<void const*>(address));
  if (now == nullptr || in == nullptr) return false;
  found = {.number = static_cast<unsigned>(in - now->callers.modules) + 1,
           .offset = address - in->begin + in->file_offset,
           .path = in->path};
  return true;
}

char const* page_names::phase(unsigned number) noexcept {
  stats::page* const now = stats::current_page();
  if (now == nullptr || number >= stats::max_phases) return nullptr;
  stats::phase_entry& entry = now->phases.phases[number];
  bool const is_named = std::atomic_ref<std::uint64_t>(entry.ready).load(std::memory_order_acquire) == 1;
  return is_named ? entry.name : nullptr;
}

}  // namespace gpumem::recording
