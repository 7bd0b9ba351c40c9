// See call_sites.hpp.
#include "core/report/call_sites.hpp"

#include <algorithm>

#include "core/report/document.hpp"
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
           std::ranges::any_of(told_of(note), [&](auto const& one) { return one.number == site.number; });
  });
}

// The sampled sites that are told: those that hold most, and those of failures.
std::vector<stats::sampled_site_totals const*> told_sites(stats::snapshot const& from) {
  using stats::sampled_site_totals;
  std::vector<sampled_site_totals const*> told;
  for (auto const& device : from.devices) {
    std::vector<sampled_site_totals const*> here;
    for (auto const& site : from.sampled_sites) {
      if (site.device == device.ordinal) here.push_back(&site);
    }
    std::stable_sort(here.begin(), here.end(), [](auto* a, auto* b) {
      return std::max(a->now, a->at_highest) > std::max(b->now, b->at_highest);
    });
    for (std::size_t i = 0; i < here.size(); ++i) {
      bool const is_named = std::max(here[i]->now, here[i]->at_highest) != 0 && i < most_sampled_sites;
      if (is_named || is_of_a_failure(from, *here[i])) told.push_back(here[i]);
    }
  }
  return told;
}

document sums_of_devices(stats::snapshot const& from) {
  document devices = document::array();
  for (auto const& device : from.devices) {
    std::uint64_t sites = 0, now = 0, at_highest = 0;
    for (auto const& site : from.sampled_sites) {
      if (site.device != device.ordinal) continue;
      ++sites;
      now += site.now, at_highest += site.at_highest;
    }
    if (sites == 0) continue;
    devices.push_back(
        {{"device", device.ordinal}, {"sites", sites}, {"now_bytes", now}, {"at_highest_bytes", at_highest}});
  }
  return devices;
}

}  // namespace

frame_names names_of_sites(stats::snapshot const& from) {
  frame_names names;
  for (auto const& site : from.call_sites) {
    if (is_shown(from, site)) names.want(site.frames);
  }
  if (from.categories.empty()) {
    for (auto const* site : told_sites(from)) names.want(site->frames);
  } else {
    for (auto const& site : from.sampled_sites) names.want(site.frames);
  }
  names.read();
  return names;
}

document call_sites_of(stats::snapshot const& from, frame_names const& names) {
  std::vector<call_site_totals const*> shown;
  for (auto const& site : from.call_sites) {
    if (is_shown(from, site)) shown.push_back(&site);
  }
  auto const weight = [&](call_site_totals const* site) {
    return from.nodes[site->node].type == "tracking" ? live_bytes(*site) : site->allocated_bytes;
  };
  std::stable_sort(shown.begin(), shown.end(), [&](auto* a, auto* b) {
    return a->node != b->node ? a->node < b->node : weight(a) > weight(b);
  });

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

document samples_of(stats::snapshot const& from, frame_names const& names, category_table const& table,
                    site_categories const& categories) {
  document sites = document::array();
  for (auto const* site : told_sites(from)) {
    document one{{"id", site->number},
                 {"device", site->device},
                 {"samples", site->samples},
                 {"now_bytes", site->now},
                 {"at_highest_bytes", site->at_highest}};
    if (!table.empty()) one["category"] = table.name(categories.at(site->number));
    one["frames"] = names.frames_of(site->frames);
    add_python(one, *site);
    sites.push_back(std::move(one));
  }
  return {{"every_bytes", from.sample_every}, {"devices", sums_of_devices(from)}, {"sites", sites}};
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
