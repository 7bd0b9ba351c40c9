// See recorded_use.hpp.
#include "shim/cli/recommend/recorded_use.hpp"

#include <algorithm>
#include <map>

#include "core/recording/reader/replay.hpp"

namespace gpumem::cli {
namespace {

using recording::action;
using recording::event;

constexpr std::size_t most_kept = 65'536;  // streams and threads of a device
constexpr std::uint32_t out_of_memory = 2;

struct watched {
  std::uint64_t held = 0, highest = 0, observed_highest = 0;
  std::uint64_t reserved_highest = 0, requested_highest = 0;
  std::uint64_t requests = 0, grown = 0, other_stream_frees = 0, refusals = 0, asked_in_vain = 0,
                held_then = 0;
  std::map<unsigned, std::uint64_t> libraries, at_highest;  // bytes by number of the library
  std::map<std::uint64_t, std::uint64_t> streams, threads;  // requests
};

void count_one(std::map<std::uint64_t, std::uint64_t>& in, std::uint64_t key) {
  if (in.size() < most_kept || in.contains(key)) ++in[key];
}

// With a fifth of an equal share or more: many that ask for as much count all, and few beside one that asks
// for nearly everything do not.
std::uint64_t with_a_share(std::map<std::uint64_t, std::uint64_t> const& in, std::uint64_t of) {
  return static_cast<std::uint64_t>(std::count_if(
      in.begin(), in.end(), [of, &in](auto const& one) { return one.second * 5 * in.size() >= of; }));
}

class watcher {
 public:
  void see(recording::recording_file::item const& each, program_use& into) {
    event const& one = each.what;
    auto const changed = played_.apply(one);
    watched& on = devices_[one.device];
    if (names_.size() < each.known.libraries.size()) names_ = each.known.libraries;
    if (one.what == action::allocate && !each.is_live) note_request(each, on, into);
    if (one.what == action::segment_taken && !each.is_live) ++on.grown;
    if (one.what == action::refused && one.number == out_of_memory) note_refusal(one, on);
    if (is_the_programs(one)) hold(one, on);
    event const& before = changed.before;
    if (is_the_programs(before)) {
      let_go(before, devices_[before.device]);
      if (one.what == action::free && one.stream != 0 && before.stream != 0 && one.stream != before.stream)
        ++on.other_stream_frees;
    }
    note_highest(one.device, on);
  }

  void finish(program_use& into) const {
    for (auto const& [number, on] : devices_) {
      if (on.requests == 0 && on.highest == 0 && on.refusals == 0) continue;
      device_use one;
      one.number = number;
      one.highest = on.highest;
      one.observed = on.observed_highest;
      one.requested = on.requested_highest;
      one.reserved = on.reserved_highest;
      one.requests = on.requests;
      one.grown = on.grown;
      one.streams = with_a_share(on.streams, on.requests);
      one.threads = with_a_share(on.threads, on.requests);
      one.other_stream_frees = on.other_stream_frees;
      one.refusals = on.refusals;
      if (on.refusals != 0) one.refused = refusal{on.asked_in_vain, on.held_then, 0, 0, "driver"};
      for (auto const& [library, bytes] : on.at_highest) {
        auto const name = names_.find(library);
        if (bytes != 0) one.holders.push_back({name == names_.end() ? "" : name->second, bytes});
      }
      std::stable_sort(one.holders.begin(), one.holders.end(),
                       [](holder const& a, holder const& b) { return a.bytes > b.bytes; });
      into.devices.push_back(std::move(one));
    }
  }

 private:
  static void note_request(recording::recording_file::item const& each, watched& on, program_use& into) {
    event const& one = each.what;
    ++on.requests;
    count_one(on.streams, one.stream);
    auto const thread = each.known.threads.find(one.ring);
    count_one(on.threads, thread == each.known.threads.end() ? one.ring : thread->second);
    add_to(into.sized, 1);
    add_to(into.bytes, one.bytes);
    if (one.bytes > small_block) return;
    add_to(into.small, 1);
    add_to(into.small_bytes, one.bytes);
  }
  static void note_refusal(event const& one, watched& on) {
    ++on.refusals;
    if (one.bytes < on.asked_in_vain) return;
    on.asked_in_vain = one.bytes;
    on.held_then = on.held;
  }
  static bool is_the_programs(event const& one) {
    return one.what == action::allocate || one.what == action::observed_taken;
  }
  static void hold(event const& one, watched& on) {
    add_to(on.held, one.bytes);
    add_to(on.libraries[one.library], one.bytes);
  }
  static void let_go(event const& before, watched& on) {
    on.held -= std::min(on.held, before.bytes);
    std::uint64_t& of_library = on.libraries[before.library];
    of_library -= std::min(of_library, before.bytes);
  }
  void note_highest(unsigned device, watched& on) {
    auto const found = played_.devices().find(device);
    if (found == played_.devices().end()) return;
    on.observed_highest = std::max(on.observed_highest, found->second.observed);
    on.reserved_highest = std::max(on.reserved_highest, found->second.reserved);
    on.requested_highest = std::max(on.requested_highest, found->second.requested);
    if (on.held <= on.highest) return;
    on.highest = on.held;
    if (on.held < noted_[device] + noted_[device] / 100) return;  // who held it: to 1 %
    noted_[device] = on.held;
    on.at_highest = on.libraries;
  }

  recording::replay played_;
  std::map<unsigned, watched> devices_;
  std::map<unsigned, std::uint64_t> noted_;
  std::map<unsigned, std::string> names_;
};

}  // namespace

program_use use_of_recording(recording::recording_file const& file, std::vector<recording::fault>& faults) {
  program_use result;
  watcher seen;
  file.read([&](recording::recording_file::item const& each) { seen.see(each, result); }, faults);
  seen.finish(result);
  return result;
}

}  // namespace gpumem::cli
