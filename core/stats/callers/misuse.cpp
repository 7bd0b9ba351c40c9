// See misuse.hpp.
#include "core/stats/callers/misuse.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "core/base/log/log.hpp"
#include "core/base/text/bytes.hpp"
#include "core/stats/page/page_state.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::stats {
namespace {

// "libx.so+0x1234", as addr2line and gdb take it for most files; "an unknown place".
struct place_text {
  char text[160];
};
place_text place_of(page& now, call_site site) noexcept {
  place_text place{"an unknown place"};
  if (site == no_site) return place;
  call_site_entry const& entry = now.callers.sites[site - 1];
  module_entry const* const in = module_of(reinterpret_cast<void const*>(entry.frames[0]));
  if (in == nullptr) {
    std::snprintf(place.text, sizeof place.text, "%#llx", static_cast<unsigned long long>(entry.frames[0]));
    return place;
  }
  char const* const slash = std::strrchr(in->path, '/');
  std::snprintf(place.text, sizeof place.text, "%.120s+%#llx", slash != nullptr ? slash + 1 : in->path,
                static_cast<unsigned long long>(entry.frames[0] - in->begin + in->file_offset));
  return place;
}

void say(page& now, misuse const& what) noexcept {
  char text[800];
  auto const address = static_cast<unsigned long long>(what.address);
  auto const offset = static_cast<unsigned long long>(what.offset);
  place_text const here = place_of(now, what.here), from = place_of(now, what.allocated_at),
                   first = place_of(now, what.freed_at);
  auto const size = base::print_exact_bytes(what.bytes);
  auto const shown = static_cast<int>(size.view().size());
  switch (what.kind) {
    case misuse_kind::double_free:
      std::snprintf(text, sizeof text,
                    "block %#llx was freed a second time at %s; allocated at %s, freed first at %s", address,
                    here.text, from.text, first.text);
      break;
    case misuse_kind::foreign_free:
      std::snprintf(text, sizeof text, "%#llx was freed at %s, and is no block of anyone's", address,
                    here.text);
      break;
    case misuse_kind::interior_free:
      if (offset == 0) {
        std::snprintf(text, sizeof text,
                      "block %#llx of %.*s, allocated at %s, was freed at %s by a function for other memory",
                      address, shown, size.view().data(), from.text, here.text);
        break;
      }
      std::snprintf(text, sizeof text,
                    "%#llx was freed at %s, %llu bytes into a block of %.*s that was allocated at %s",
                    address + offset, here.text, offset, shown, size.view().data(), from.text);
      break;
    case misuse_kind::damaged_zone:
      std::snprintf(text, sizeof text,
                    "block %#llx of %.*s, allocated at %s, was written to behind its end: %llu bytes, the "
                    "first at offset %llu",
                    address, shown, size.view().data(), from.text,
                    static_cast<unsigned long long>(what.damaged), offset);
      break;
  }
  base::log_line(base::log_level::warn, text);
}

}  // namespace

void note_misuse(misuse const& what) noexcept {
  page* const now = current_page();
  if (now == nullptr) return;
  auto const number = std::atomic_ref<std::uint64_t>(now->fixed.head.misuses_total).fetch_add(1);
  if (number >= max_misuses) return;
  misuse_entry& entry = now->fixed.misuses[number];
  entry.kind = what.kind;
  entry.node = static_cast<std::uint32_t>(what.node);
  entry.t_ns = elapsed_ns();
  entry.address = what.address;
  entry.bytes = what.bytes;
  entry.offset = what.offset;
  entry.damaged = what.damaged;
  entry.here = what.here;
  entry.allocated_at = what.allocated_at;
  entry.freed_at = what.freed_at;
  entry.thread = static_cast<std::uint32_t>(::gettid());
  std::atomic_ref<std::uint64_t>(entry.ready).store(1, std::memory_order_release);
  say(*now, what);
}

}  // namespace gpumem::stats
