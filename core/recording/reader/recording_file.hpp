// A recording, read: its head, its chunks in their order, and the events of each. For the program gpumem and
// for tests, never in the preload library. Believes nothing of the file: what is torn or damaged is a fault
// with its offset, and the rest is read all the same. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/recording/event.hpp"
#include "core/recording/format.hpp"

namespace gpumem::recording {

struct fault {
  std::uint64_t offset = 0;
  std::string text;
};

// One code address of a call site.
struct site_frame {
  unsigned module = 0;  // key of modules; 0: none, and `offset` is an address
  std::uint64_t offset = 0;
};

// What a chunk says of numbers in its events.
struct names {
  std::map<unsigned, std::string> libraries;
  std::map<unsigned, std::string> modules;
  std::map<unsigned, std::vector<site_frame>> sites;
  std::map<unsigned, std::string> phases;
  std::map<unsigned, std::uint32_t> threads;  // by ring
};

struct chunk_summary {
  std::uint64_t number = 0;
  std::uint64_t offset = 0;
  std::uint64_t end = 0;            // behind its last good frame
  std::uint64_t events_before = 0;  // of the whole recording
  std::uint64_t whole_before = 0;   // see frame_head
  std::uint32_t frames = 0;
  std::uint32_t live_frames = 0;  // of those, the first ones
  std::uint64_t until = 0;        // see frame_head
  bool is_whole = false;          // its last frame says that it is
  bool is_last = false;           // that frame is the last of the file
  bool is_resumed = false;        // by what completed it: the one before it may have been left open
};

class recording_file {
 public:
  recording_file() = default;
  recording_file(recording_file const&) = delete;
  recording_file& operator=(recording_file const&) = delete;
  ~recording_file();

  // Empty: it is open; else why it cannot be.
  std::string open(std::string const& path);

  file_head const& head() const noexcept { return head_; }
  // In the order of their numbers. Where a limit held, or bytes are damaged, some are missing.
  std::vector<chunk_summary> const& chunks() const noexcept { return chunks_; }
  // What is wrong with the file itself.
  std::vector<fault> const& faults() const noexcept { return faults_; }
  std::uint64_t bytes() const noexcept { return size_; }

  struct item {
    event const& what;
    bool is_live;           // not an event: it was live when the chunk began
    std::uint64_t wall_ns;  // since 1970
    names const& known;
  };
  using visitor = std::function<void(item const&)>;
  // Of one chunk; false: it has bytes that are no events, and the fault says where.
  bool read_chunk(chunk_summary const& which, visitor const& visit, std::vector<fault>& faults) const;
  // Of all chunks; the live sets of the later ones are left out.
  bool read(visitor const& visit, std::vector<fault>& faults) const;

 private:
  std::string adopt(void const* base, std::string const& path);  // why it is no recording
  bool frame_at(std::uint64_t offset, frame_head& head) const noexcept;
  bool follow(chunk_summary& chunk);
  void find_chunks(int descriptor);
  void leave_out_overwritten();
  void find_faults();
  void note_clock(frame_head const& head);
  std::uint64_t wall_of(std::uint64_t stamp) const noexcept;

  unsigned char const* begin_ = nullptr;
  std::uint64_t size_ = 0;
  file_head head_{};
  std::vector<chunk_summary> chunks_;
  std::vector<fault> faults_;
  std::vector<clock_pair> clock_;  // in the order of stamps
};

}  // namespace gpumem::recording
