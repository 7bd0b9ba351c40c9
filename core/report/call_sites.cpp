// See call_sites.hpp.
#include "core/report/call_sites.hpp"

#include <algorithm>
#include <map>

#include "core/report/document.hpp"
#include "core/report/names/elf_symbols.hpp"

namespace gpumem::report {
namespace {

using stats::call_site_totals;

std::uint64_t live_bytes(call_site_totals const& site) {
  return site.allocated_bytes > site.freed_bytes ? site.allocated_bytes - site.freed_bytes : 0;
}

bool is_shown(stats::snapshot const& from, call_site_totals const& site) {
  return site.allocations != 0 ||
         std::any_of(from.misuses.begin(), from.misuses.end(), [&](stats::misuse_note const& note) {
           return note.here == site.number || note.allocated_at == site.number ||
                  note.freed_at == site.number;
         });
}

bool is_runtime_function(document const& frame) {
  auto const& symbol = frame["symbol"];
  if (!symbol.is_string()) return false;
  auto const& name = symbol.get_ref<std::string const&>();
  return name.starts_with("cuda") && name.size() > 4 && name[4] >= 'A' && name[4] <= 'Z';
}

// A static CUDA runtime is part of the program's own file: the program's code is behind the runtime's
// function. Left out where that is known, so that a call site is where the program called.
void leave_out_runtime(document& frames) {
  for (std::size_t i = 0; i + 1 < frames.size(); ++i) {
    if (!is_runtime_function(frames[i])) continue;
    frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return;
  }
}

document id_or_null(unsigned site) {
  return site == 0 ? document(nullptr) : document(site);
}

}  // namespace

document call_sites_of(stats::snapshot const& from) {
  std::vector<call_site_totals const*> shown;
  std::map<std::string, std::vector<std::uint64_t>> offsets;
  for (auto const& site : from.call_sites) {
    if (!is_shown(from, site)) continue;
    shown.push_back(&site);
    for (auto const& frame : site.frames) {
      if (!frame.library.empty()) offsets[frame.library].push_back(frame.file_offset);
    }
  }
  auto const weight = [&](call_site_totals const* site) {
    return from.nodes[site->node].type == "tracking" ? live_bytes(*site) : site->allocated_bytes;
  };
  std::stable_sort(shown.begin(), shown.end(), [&](auto* a, auto* b) {
    return a->node != b->node ? a->node < b->node : weight(a) > weight(b);
  });
  std::map<std::string, elf_places> places;
  for (auto const& [library, used] : offsets) places[library] = find_places(library, used);

  document sites = document::array();
  for (auto const* site : shown) {
    document frames = document::array();
    for (auto const& frame : site->frames) {
      elf_place place{.address = frame.file_offset, .symbol = {}};
      if (!frame.library.empty()) {
        auto const& known = places[frame.library];
        if (auto const found = known.find(frame.file_offset); found != known.end()) place = found->second;
      } else {
        place.address = frame.address;
      }
      frames.push_back({{"library", frame.library.empty() ? document(nullptr) : document(frame.library)},
                        {"address", place.address},
                        {"symbol", place.symbol.empty() ? document(nullptr) : document(place.symbol)},
                        {"file", nullptr},
                        {"line", nullptr}});
    }
    leave_out_runtime(frames);
    sites.push_back({{"id", site->number},
                     {"node", site->node},
                     {"allocations", site->allocations},
                     {"allocated_bytes", site->allocated_bytes},
                     {"frees", site->frees},
                     {"freed_bytes", site->freed_bytes},
                     {"frames", frames}});
  }
  return sites;
}

document misuses_of(stats::snapshot const& from) {
  constexpr char const* kinds[] = {"double free", "foreign free", "interior free", "damaged zone"};
  document misuses = document::array();
  for (auto const& note : from.misuses) {
    bool const zone = note.kind == stats::misuse_kind::damaged_zone;
    misuses.push_back({{"kind", kinds[static_cast<std::size_t>(note.kind)]},
                       {"node", note.node},
                       {"t_ns", note.t_ns},
                       {"address", note.address},
                       {"bytes", note.bytes == 0 ? document(nullptr) : document(note.bytes)},
                       {"offset", note.offset},
                       {"damaged", zone ? document(note.damaged) : document(nullptr)},
                       {"here", id_or_null(note.here)},
                       {"allocated_at", id_or_null(note.allocated_at)},
                       {"freed_at", id_or_null(note.freed_at)},
                       {"thread", note.thread}});
  }
  return misuses;
}

}  // namespace gpumem::report
