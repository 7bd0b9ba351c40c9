// What a process and the reader of its recording share: a file in the folder of the state pages, mapped, with
// a ring of events for each thread and a spool of frames that are not written yet. It outlives a kill, so
// that no event is lost by one. Removed when the recording is complete. Producers write their own ring's
// head, the recorder's thread the tails and the spool; nothing here waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/recording/event.hpp"

namespace gpumem::recording {

inline constexpr char area_magic[8] = {'g', 'p', 'm', 'r', 'i', 'n', 'g', '1'};
inline constexpr std::size_t max_rings = 256;  // threads at once; further ones share the last
inline constexpr std::size_t ring_events = 1 << 15;
inline constexpr std::size_t spool_slots = 256;
inline constexpr std::size_t slot_bytes = 256 * 1024;

struct area_head {
  char magic[8];
  std::uint64_t recording_device;  // of the file that this belongs to
  std::uint64_t recording_inode;
  std::uint32_t monotonic;  // stamps are of the clock, not of the processor's counter
  std::atomic<std::uint32_t> rings_used;
  std::uint64_t pid_namespace;  // of the process, whose number is in the file's name
};

// `head`: events published; `tail`: events taken out. Both only grow.
struct ring_state {
  alignas(64) std::atomic<std::uint64_t> head;
  std::atomic<std::uint32_t> busy;  // an event has its stamp and is not published
  std::uint32_t owner;              // thread id; of the producer alone, as all of this line
  std::uint64_t last_stamp;
  std::uint64_t tail_seen;
  // A block was taken from the program, or is about to be, and is not told of.
  std::atomic<std::uint32_t> freeing;
  alignas(64) std::atomic<std::uint64_t> tail;
};

struct slot_state {
  std::atomic<std::uint64_t> number;  // of the frame, from 1; 0: empty
  std::uint64_t offset;               // in the recording's file
  std::uint64_t bytes;
};

struct area {
  alignas(4096) area_head head;
  alignas(4096) ring_state rings[max_rings];
  alignas(4096) slot_state slots[spool_slots];
  alignas(4096) event events[max_rings][ring_events];  // written as event_words
  alignas(4096) unsigned char spool[spool_slots][slot_bytes];
};
inline constexpr std::size_t area_fixed_bytes = offsetof(area, events);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && ring_events * sizeof(event) % 4096 == 0);

}  // namespace gpumem::recording
