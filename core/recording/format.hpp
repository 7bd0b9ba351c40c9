// A recording's file, byte for byte (docs/recording.md): a head of one page, then chunks. A chunk is a row of
// frames with its number and begins on a page; its first frames hold what was live then, so that any chunk
// can be replayed alone. Where a size limit holds, later chunks overwrite the oldest, from their heads on.
// Little endian, as everything that gpumem runs on. A change of meaning raises `format_version`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace gpumem::recording {

inline constexpr char file_magic[8] = {'g', 'p', 'u', 'm', 'e', 'm', 'r', 'c'};
inline constexpr std::uint32_t format_version = 1;
inline constexpr std::uint64_t file_page = 4096;  // chunks begin at multiples of it, behind the head

enum class end_state : std::uint32_t {
  open = 0,       // it is being written, or its process was killed
  complete = 1,   // all events until the process ended
  stopped = 2,    // the recording ended before the process: `reason`
  recovered = 3,  // completed later from what the process left
};

// Of one moment: ticks are converted to time between two of them.
struct clock_pair {
  std::uint64_t stamp = 0;
  std::uint64_t wall_ns = 0;  // since 1970
};

struct file_head {
  char magic[8];
  std::uint32_t version;
  std::uint32_t head_bytes;
  end_state state;
  std::int32_t pid;
  std::uint64_t start_ticks;  // of the process, field 22 of /proc/PID/stat
  std::uint64_t pid_namespace;
  std::uint64_t max_bytes;     // the size limit; 0: none
  std::int64_t utc_offset_ns;  // of the local time
  clock_pair began;
  std::uint64_t events;  // written in all, oldest chunks that went included; at the end
  char program[256];
  char tool_version[32];
  char rings[1024];  // the file with what is not yet in this one; empty: none
  char reason[240];
};
static_assert(sizeof(file_head) <= file_page);

inline constexpr std::uint32_t frame_magic = 0x6d617266;  // "fram"

enum frame_flags : std::uint16_t {
  live_frame = 1,     // its events are what was live at the begin of the chunk
  last_of_chunk = 2,  //
  last_of_file = 4,   //
  resumed = 8,        // of the first frame of a chunk: the process was killed in the chunk before it
};

struct frame_head {
  std::uint32_t magic;
  std::uint32_t bytes;     // with this head
  std::uint64_t checksum;  // of all behind this word
  std::uint64_t chunk;     // from 1
  std::uint32_t number;    // in its chunk, from 0
  std::uint16_t flags;
  std::uint16_t whole_before;  // of a chunk's first frame: so many chunks before it are in the file, at least
  std::uint64_t events;        // before this frame, of the whole recording; live ones are none
  std::uint64_t first_stamp;   // what the first event's stamp is a difference to
  std::uint64_t until;         // all events with an earlier stamp are in this frame or before it
  clock_pair written;
};
static_assert(sizeof(frame_head) == 72);

// Not for secrets: finds torn and overwritten frames.
inline std::uint64_t checksum_of(std::span<unsigned char const> bytes) noexcept {
  std::uint64_t sum = 0x9e3779b97f4a7c15ull ^ bytes.size();
  auto const mix = [&sum](std::uint64_t word) {
    sum = (sum ^ word) * 0xff51afd7ed558ccdull;
    sum ^= sum >> 32;
  };
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    mix(word);
  }
  std::uint64_t rest = 0;
  if (at < bytes.size()) std::memcpy(&rest, bytes.data() + at, bytes.size() - at);
  mix(rest);
  return sum;
}

inline constexpr std::size_t behind_checksum = offsetof(frame_head, chunk);

}  // namespace gpumem::recording
