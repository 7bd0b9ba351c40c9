// Reads a recording and prints, as JSON, what its replay ends with: each chunk is replayed alone, and must
// begin with what the one before ended with.
//   recording_ledger FILE
#include <cstdio>
#include <map>
#include <string>

#include "core/recording/reader/recording_file.hpp"
#include "core/recording/reader/replay.hpp"

using namespace gpumem;

namespace {

using totals = std::map<unsigned, recording::device_totals>;

totals without_peaks(totals from) {
  for (auto it = from.begin(); it != from.end();) {
    it->second.highest_requested = 0;
    it = it->second == recording::device_totals{} ? from.erase(it) : std::next(it);
  }
  return from;
}

struct findings {
  std::uint64_t events = 0, calls = 0, contradictions = 0, breaks = 0;  // calls: blocks given out and freed
  totals end;
  std::map<std::string, std::uint64_t> phases;  // how often each began
  std::uint64_t open = 0;                       // at the end
};

void play(recording::recording_file const& file, recording::chunk_summary const& chunk, bool first,
          findings& to, std::vector<recording::fault>& faults) {
  recording::replay played;
  bool begun = false;
  auto const begin = [&] {
    if (!first && !begun && without_peaks(played.devices()) != without_peaks(to.end)) ++to.breaks;
    begun = true;
  };
  file.read_chunk(
      chunk,
      [&](recording::recording_file::item const& each) {
        if (!each.is_live) begin();
        if (!each.is_live && each.what.what != recording::action::thread) ++to.events;
        bool const of_a_call =
            each.what.what == recording::action::allocate || each.what.what == recording::action::free;
        if (!each.is_live && of_a_call) ++to.calls;
        played.apply(each.what);
        if (each.what.what != recording::action::phase_begins || each.is_live) return;
        auto const name = each.known.phases.find(each.what.number);
        ++to.phases[name == each.known.phases.end() ? "(not told)" : name->second];
      },
      faults);
  begin();
  to.contradictions += played.contradictions();
  to.end = played.devices();
  to.open = 0;
  played.live().each(
      [&to](recording::event const& one) { to.open += one.keys == recording::key_kind::phase ? 1 : 0; });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  recording::recording_file file;
  if (std::string const error = file.open(argv[1]); !error.empty()) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 2;
  }
  std::vector<recording::fault> faults = file.faults();
  findings found;
  for (auto const& chunk : file.chunks()) play(file, chunk, &chunk == &file.chunks().front(), found, faults);
  std::printf(
      "{\"state\": %u, \"bytes\": %llu, \"chunks\": %zu, \"events\": %llu, \"calls\": %llu, "
      "\"contradictions\": %llu, "
      "\"breaks\": %llu, \"faults\": [",
      static_cast<unsigned>(file.head().state), static_cast<unsigned long long>(file.bytes()),
      file.chunks().size(), static_cast<unsigned long long>(found.events),
      static_cast<unsigned long long>(found.calls), static_cast<unsigned long long>(found.contradictions),
      static_cast<unsigned long long>(found.breaks));
  for (auto const& one : faults)
    std::printf("%s\"%llu: %s\"", &one == &faults.front() ? "" : ", ",
                static_cast<unsigned long long>(one.offset), one.text.c_str());
  std::printf("], \"devices\": {");
  bool first = true;
  for (auto const& [device, of] : found.end) {
    std::printf("%s\"%u\": {\"requested\": %llu, \"rounding\": %llu, \"reserved\": %llu, \"observed\": %llu}",
                first ? "" : ", ", device, static_cast<unsigned long long>(of.requested),
                static_cast<unsigned long long>(of.rounding), static_cast<unsigned long long>(of.reserved),
                static_cast<unsigned long long>(of.observed));
    first = false;
  }
  std::printf("}, \"phases\": {");
  for (auto const& [name, count] : found.phases)
    std::printf("%s\"%s\": %llu", name == found.phases.begin()->first ? "" : ", ", name.c_str(),
                static_cast<unsigned long long>(count));
  std::printf("}, \"open_phases\": %llu}\n", static_cast<unsigned long long>(found.open));
  return 0;
}
