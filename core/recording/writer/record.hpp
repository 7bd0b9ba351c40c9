// What chains, routes and hooks say of memory to the recording of this process, if there is one. Any thread,
// inside the program's calls: an event is copied into the ring of this thread, and nothing else is done
// there. No heap, no lock, no system call; where a ring is full the thread gives the processor away until the
// recorder has come by, and never waits for a disk.
#pragma once

#include <atomic>

#include "core/recording/event.hpp"

namespace gpumem::recording {

struct recorder_state;
extern constinit std::atomic<bool> active;
// Null: nothing was asked for, or it could not be had.
extern constinit std::atomic<recorder_state*> recorder;
// One load; false in nearly every process.
inline bool is_on() noexcept {
  return active.load(std::memory_order_relaxed);
}

// The event gets its stamp here. Of memory that was taken, after it is this thread's; of what goes, before
// anybody else can have it.
void note(event const& one) noexcept;
// The same of a block, which passes from thread to thread with a word of its own, `last`, that only its
// holder reads and writes: the stamp of what happened to it last. This one is later. See event_words.
void note_block(std::uint64_t& last, std::uint64_t address, std::uint64_t bytes, std::uint64_t stream,
                std::uint64_t sizes, std::uint64_t kinds) noexcept;

// For the two below.
[[gnu::cold]] void mark_free(bool begins) noexcept;
// Around the free of a block, from before it is taken until it is told of. A context that ends has taken the
// blocks that are left, and waits, for a fifth of a second at most, until those that were taken before are
// told of: await_frees(). Not for those of threads that share the last ring.
inline void free_begins() noexcept {
  if (is_on()) [[unlikely]]
    mark_free(true);
}
inline void free_over() noexcept {
  if (recorder.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
    mark_free(false);
}
void await_frees() noexcept;
// Whether this thread's free is one of those.
bool is_awaited() noexcept;

// The same where nobody may listen.
inline void note_if_on(event const& one) noexcept {
  if (is_on()) [[unlikely]]
    note(one);
}
inline void note_segment(bool taken, int device, std::uint64_t address, std::uint64_t bytes) noexcept {
  if (!is_on()) [[likely]]
    return;
  note({.address = address,
        .bytes = bytes,
        .what = taken ? action::segment_taken : action::segment_given_back,
        .keys = key_kind::segment,
        .device = static_cast<std::uint8_t>(device)});
}

}  // namespace gpumem::recording
