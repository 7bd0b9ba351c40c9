// See remedy.hpp.
#include "core/report/remedy.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "core/base/text/bytes.hpp"
#include "core/base/text/format.hpp"
#include "core/driver/error.hpp"
#include "core/report/fields.hpp"
#include "core/report/known_caches.hpp"

namespace gpumem::report {
namespace {

// In the order of driver::refused_by.
constexpr std::array<std::string_view, 5> names{"driver", "limit", "maximum", "largest_block", "host_memory"};
static_assert(static_cast<std::size_t>(driver::refused_by::tables) == names.size());

driver::refused_by kind_of(stats::failure_note const& failure) noexcept {
  return failure.refused_by < names.size() ? static_cast<driver::refused_by>(failure.refused_by)
                                           : driver::refused_by::driver;
}

bool is_of(stats::failure_note const& failure, std::string_view kind) {
  return failure.symbol.find(kind) != std::string::npos;
}

bool has_resource(stats::snapshot const& in, stats::failure_note const& failure, std::string_view type) {
  return std::any_of(in.nodes.begin(), in.nodes.end(), [&](stats::node_totals const& node) {
    return node.device == failure.device && node.type == type;
  });
}

// The list of route.device by the names that its resources have; empty where no chain serves. What stands
// beside the list (bins, the superblocks of an arena) is deeper than the list has come.
std::string chain_of(stats::snapshot const& in, stats::failure_note const& failure) {
  std::string list;
  unsigned next = 0;
  for (auto const& node : in.nodes) {
    bool const part_of_another = node.type == "superblocks" || node.type == "direct";
    if (node.device != failure.device || node.route != "device" || part_of_another) continue;
    if (node.depth != next++) break;
    list += (list.empty() ? "\"" : ", \"") + node.name + "\"";
  }
  return list;
}

std::uint64_t size_of_device(stats::snapshot const& in, int device) {
  for (auto const& one : in.devices) {
    if (one.ordinal == device) return one.gauges.total;
  }
  return 0;
}

// What holds the request back, and what it is raised by.
std::string first_step(stats::failure_note const& failure) {
  switch (kind_of(failure)) {
    case driver::refused_by::limit:
      return "raise allocation_limit, free memory earlier";
    case driver::refused_by::pool_maximum:
      return (failure.reason.find("arena_size") == std::string::npos ? "raise maximum_pool_size"
                                                                     : "raise arena_size") +
             std::string(", free memory earlier");
    case driver::refused_by::host_memory:
      return "give the process more host memory";
    default:
      return is_of(failure, "Host") ? "free pinned memory earlier, or give the process more host memory"
                                    : "free memory earlier, lower what others hold on the device";
  }
}

// Where the code is that holds most of what this library holds, or a quarter of it and more than any other:
// "most of it by train.py:132 forward"; empty where no place stands out. What code holds is an estimate.
std::string place_of_most(stats::failure_note const& failure, asking_codes const& codes,
                          stats::failure_note::holder const& holder) {
  std::map<std::string, std::uint64_t> by_place;
  for (auto const& site : failure.sites) {
    auto const code = codes.find(site.number);
    if (code != codes.end() && file_name(code->second.library) == file_name(holder.path))
      by_place[code->second.place] += site.bytes;
  }
  auto const most = std::ranges::max_element(by_place, {}, [](auto const& place) { return place.second; });
  if (most == by_place.end() || most->second < holder.bytes / 4) return {};
  if (most->second >= holder.bytes / 2) return "most of it by " + most->first;
  return base::format("{} % of that by {}", most->second * 100 / holder.bytes, most->first);
}

// "61 % (47.20 GiB) is held by PyTorch's cache: ..., most of it by train.py:132 forward"; empty where nobody
// holds most, or where that is the program alone, and no place in it stands out.
std::string holder_of_most(stats::failure_note const& failure, asking_codes const& codes) {
  if (failure.holders.empty() || failure.holders[0].bytes < failure.held / 2) return {};
  std::string const& path = failure.holders[0].path;
  auto const known = std::ranges::find_if(
      known_caches, [&path](known_cache const& one) { return path.find(one.part) != std::string::npos; });
  std::string const place = place_of_most(failure, codes, failure.holders[0]);
  if (known == known_caches.end() && failure.holders.size() < 2 && place.empty()) return {};
  std::string text = base::format("{} % ({}) is held by ", failure.holders[0].bytes * 100 / failure.held,
                                  std::string(base::print_bytes(failure.holders[0].bytes).view()));
  text += known == known_caches.end() ? path.empty() ? "generated code" : file_name(path)
                                      : std::string(known->name) + ": " + std::string(known->release);
  return place.empty() ? text : text + ", " + place;
}

}  // namespace

std::string_view refused_by(stats::failure_note const& failure) noexcept {
  return names[static_cast<std::size_t>(kind_of(failure))];
}

std::string remedy_for(stats::failure_note const& failure, stats::snapshot const& in,
                       asking_codes const& codes) {
  if (failure.code != CUDA_ERROR_OUT_OF_MEMORY) return {};
  bool const host = is_of(failure, "Host"), managed = is_of(failure, "Managed");
  std::uint64_t const total = host || managed ? 0 : size_of_device(in, failure.device);
  if (total != 0 && failure.bytes > total) {
    return "ask for less: the device has " + std::string(base::print_bytes(total).view()) +
           " in all; is the size what the program meant?";
  }
  if (kind_of(failure) == driver::refused_by::largest_block) {
    bool const fixed = failure.reason.starts_with("fixed_size");
    return fixed ? "raise block_size, or let a binning send larger requests elsewhere"
                 : "ask for less: no chain makes a block of that size; is it what the program meant?";
  }
  std::string text = first_step(failure);
  bool const may_be_served = is_of(failure, "Alloc") && !is_of(failure, "FromPool");
  bool const may_spill = may_be_served && !host && !managed &&
                         kind_of(failure) != driver::refused_by::host_memory &&
                         !has_resource(in, failure, "fallback");
  if (may_spill) {
    std::string const chain = chain_of(in, failure);
    text += ", or spill by a fallback: chains = [[" + (chain.empty() ? "\"pool\", \"cuda\"" : chain) +
            "], [\"managed\"]]";
  }
  bool const in_pieces = failure.cached >= failure.bytes && failure.largest_free < failure.bytes;
  if (in_pieces && !has_resource(in, failure, "binning"))
    text = "the cached memory is in pieces: bins for small sizes keep large ones whole; or " + text;
  if (std::string const most = host ? "" : holder_of_most(failure, codes); !most.empty()) text += "; " + most;
  return text;
}

}  // namespace gpumem::report
