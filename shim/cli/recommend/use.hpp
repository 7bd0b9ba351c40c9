// What a program did with the memory of its devices, as far as a question about its chain needs it; the same
// of a report and of a recording. What one of them does not know is no value, never 0. Plain data.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace gpumem::cli {

inline constexpr std::uint64_t small_block = 256u << 10;

// Sums of figures that someone may have written by hand.
inline void add_to(std::uint64_t& sum, std::uint64_t more) noexcept {
  std::uint64_t const room = std::numeric_limits<std::uint64_t>::max() - sum;
  sum += more < room ? more : room;
}

struct holder {
  std::string path;         // the library's file
  std::uint64_t bytes = 0;  // when all together held most
};

struct refusal {
  std::uint64_t asked = 0;
  std::uint64_t handed_out = 0, cached = 0, largest_free = 0;
  std::string by;  // "driver", "limit", "maximum", "largest_block", "host_memory"
};

struct device_use {
  std::uint64_t number = 0;
  std::string name;
  std::optional<std::uint64_t> total;
  std::uint64_t highest = 0;              // held at most, routed and seen together
  std::uint64_t observed = 0;             // of calls that no chain serves, at most
  std::uint64_t requested = 0;            // of chains, at most
  std::optional<std::uint64_t> reserved;  // from the driver by chains, at most
  std::uint64_t requests = 0;
  // How they were served: by what was idle; after waiting for the GPU; by the driver.
  std::optional<std::uint64_t> at_once, waited, grown;
  std::optional<std::uint64_t> streams, threads;  // with a fifth of an equal share of the requests
  std::uint64_t other_stream_frees = 0;
  std::uint64_t refusals = 0;
  std::optional<refusal> refused;  // the largest request of them
  std::vector<holder> holders;     // most first
};

struct program_use {
  std::vector<std::string> command;  // all its words, or none: a part of a command is another one
  std::vector<device_use> devices;
  // Of all devices together.
  std::uint64_t sized = 0, small = 0, bytes = 0, small_bytes = 0;
  bool exports = false;     // blocks, by legacy IPC
  bool is_partial = false;  // of a recording that lacks events
};

}  // namespace gpumem::cli
