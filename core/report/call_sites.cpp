// See call_sites.hpp.
#include "core/report/call_sites.hpp"

#include <algorithm>
#include <map>

#include "core/report/document.hpp"
#include "core/report/names/elf_symbols.hpp"
#include "core/report/put.hpp"

namespace gpumem::report {
namespace {

using stats::call_site_totals;

constexpr std::size_t most_sampled_sites = 20;  // of a device, the largest ones

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
  std::string const name = frame.value("symbol", "");
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

// Names of functions, of each file once, as reading it takes the most time.
class frame_names {
 public:
  void want(std::vector<stats::code_frame> const& frames) {
    for (auto const& frame : frames) {
      if (!frame.library.empty()) offsets_[frame.library].push_back(frame.file_offset);
    }
  }
  void read() {
    for (auto const& [library, used] : offsets_) places_[library] = find_places(library, used);
  }

  document frames_of(std::vector<stats::code_frame> const& frames) const {
    document result = document::array();
    for (auto const& frame : frames) {
      elf_place place{.address = frame.file_offset, .symbol = {}};
      if (!frame.library.empty()) {
        auto const& known = places_.at(frame.library);
        if (auto const found = known.find(frame.file_offset); found != known.end()) place = found->second;
      } else {
        place.address = frame.address;
      }
      document one = document::object();
      put(one, "library", frame.library);
      one["address"] = place.address;
      put(one, "symbol", place.symbol);
      result.push_back(std::move(one));
    }
    leave_out_runtime(result);
    return result;
  }

 private:
  std::map<std::string, std::vector<std::uint64_t>> offsets_;
  std::map<std::string, elf_places> places_;
};

template <typename site_totals>
void add_python(document& to, site_totals const& site) {
  document& lines = to["python"] = document::array();
  for (auto const& at : site.python) {
    document line{{"file", at.file}};
    put(line, "line", nonzero(at.line));
    line["function"] = at.function;
    lines.push_back(std::move(line));
  }
  put(to, "thread", site.thread);
}

bool is_of_a_failure(stats::snapshot const& from, stats::sampled_site_totals const& site) {
  return std::any_of(from.failures.begin(), from.failures.end(), [&](stats::failure_note const& note) {
    return note.asked_at == site.number ||
           std::any_of(note.sites.begin(), note.sites.end(),
                       [&](auto const& one) { return one.number == site.number; });
  });
}

}  // namespace

document call_sites_of(stats::snapshot const& from) {
  std::vector<call_site_totals const*> shown;
  frame_names names;
  for (auto const& site : from.call_sites) {
    if (!is_shown(from, site)) continue;
    shown.push_back(&site);
    names.want(site.frames);
  }
  auto const weight = [&](call_site_totals const* site) {
    return from.nodes[site->node].type == "tracking" ? live_bytes(*site) : site->allocated_bytes;
  };
  std::stable_sort(shown.begin(), shown.end(), [&](auto* a, auto* b) {
    return a->node != b->node ? a->node < b->node : weight(a) > weight(b);
  });
  names.read();

  document sites = document::array();
  for (auto const* site : shown) {
    sites.push_back({{"id", site->number},
                     {"node", site->node},
                     {"allocations", site->allocations},
                     {"allocated_bytes", site->allocated_bytes},
                     {"frees", site->frees},
                     {"freed_bytes", site->freed_bytes},
                     {"frames", names.frames_of(site->frames)}});
    add_python(sites.back(), *site);
  }
  return sites;
}

document samples_of(stats::snapshot const& from) {
  using stats::sampled_site_totals;
  document devices = document::array(), sites = document::array();
  std::vector<sampled_site_totals const*> shown;
  for (auto const& device : from.devices) {
    std::vector<sampled_site_totals const*> here;
    std::uint64_t now = 0, at_highest = 0;
    for (auto const& site : from.sampled_sites) {
      if (site.device != device.ordinal) continue;
      now += site.now, at_highest += site.at_highest;
      here.push_back(&site);
    }
    if (here.empty()) continue;
    std::stable_sort(here.begin(), here.end(), [](auto* a, auto* b) {
      return std::max(a->now, a->at_highest) > std::max(b->now, b->at_highest);
    });
    for (std::size_t i = 0; i < here.size(); ++i) {
      bool const is_named = std::max(here[i]->now, here[i]->at_highest) != 0 && i < most_sampled_sites;
      if (is_named || is_of_a_failure(from, *here[i])) shown.push_back(here[i]);
    }
    devices.push_back({{"device", device.ordinal},
                       {"sites", here.size()},
                       {"now_bytes", now},
                       {"at_highest_bytes", at_highest}});
  }
  frame_names names;
  for (auto const* site : shown) names.want(site->frames);
  names.read();
  for (auto const* site : shown) {
    sites.push_back({{"id", site->number},
                     {"device", site->device},
                     {"samples", site->samples},
                     {"now_bytes", site->now},
                     {"at_highest_bytes", site->at_highest},
                     {"frames", names.frames_of(site->frames)}});
    add_python(sites.back(), *site);
  }
  return {{"every_bytes", from.sample_every}, {"devices", devices}, {"sites", sites}};
}

document misuses_of(stats::snapshot const& from) {
  constexpr char const* kinds[] = {"double free", "foreign free", "interior free", "damaged zone"};
  document misuses = document::array();
  for (auto const& note : from.misuses) {
    bool const zone = note.kind == stats::misuse_kind::damaged_zone;
    document one{{"kind", kinds[static_cast<std::size_t>(note.kind)]},
                 {"node", note.node},
                 {"t_ns", note.t_ns},
                 {"address", note.address}};
    put(one, "block_bytes", nonzero(note.bytes));
    one["offset_bytes"] = note.offset;
    if (zone) one["damaged_bytes"] = note.damaged;
    put(one, "here", nonzero(note.here));
    put(one, "allocated_at", nonzero(note.allocated_at));
    put(one, "freed_at", nonzero(note.freed_at));
    one["thread"] = note.thread;
    misuses.push_back(std::move(one));
  }
  return misuses;
}

}  // namespace gpumem::report
