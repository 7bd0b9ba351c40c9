// What the threads that record and the recorder share. Made by start(), never destroyed; a forked child
// leaves it behind.
#pragma once

#include <array>
#include <atomic>

#include "core/base/files/kept_file.hpp"
#include "core/base/threads/doorbell.hpp"
#include "core/recording/encoder.hpp"
#include "core/recording/writer/page_names.hpp"
#include "core/recording/writer/shared_area.hpp"
#include "core/recording/writer/spool.hpp"

namespace gpumem::recording {

struct recorder_state {
  explicit recorder_state(std::uint64_t max_bytes) noexcept : encode(frames, names, max_bytes) {}

  shared_area area;
  base::kept_file file;
  spool frames{area, file};
  page_names names;
  encoder encode;
  file_head head{};
  bool monotonic = false;

  base::doorbell work;                       // for the recorder's thread
  base::doorbell room;                       // for threads whose ring was full
  std::atomic_flag last_ring{};              // held by who writes to the ring that several share
  std::atomic<std::uint64_t> stopped_at{0};  // events from this stamp on are not recorded; 0: all are
  std::atomic<char const*> stop_reason{nullptr};

  base::doorbell answers;
  std::atomic<std::uint32_t> flushes_wanted{0}, flushes_done{0};
  std::atomic<bool> finishing{false};
  std::atomic<std::uint64_t> progress{0};  // changes while the recorder gets on

  // --- of the recorder's thread ---
  std::uint64_t held_up_since_ns = 0;  // by threads that are between a stamp and its event; 0: by none
  // Of rings whose thread does not get on: the head that they had then, and 1.
  std::array<std::uint64_t, max_rings> passed_over{};
};

// From now on nothing is recorded. The first reason counts.
void stop_recording(recorder_state& of, char const* reason) noexcept;

}  // namespace gpumem::recording
