// Makes frames and chunks of events in their order, and keeps the live set that each chunk begins with. Used
// by the recorder's thread, and where a recording is completed after a kill; one thread at a time, no heap.
// Where frames go and what numbers mean is the business of two small interfaces.
#pragma once

#include <array>
#include <bitset>

#include "core/recording/codec.hpp"
#include "core/recording/format.hpp"
#include "core/recording/live_set.hpp"

namespace gpumem::recording {

class frame_sink {
 public:
  // A place for the next frame, of at least 64 KiB; empty: there is none any more.
  virtual std::span<unsigned char> buffer() noexcept = 0;
  // The first `bytes` of it belong at this offset of the file.
  virtual void write(std::uint64_t offset, std::size_t bytes) noexcept = 0;
  virtual clock_pair now() noexcept = 0;

 protected:
  ~frame_sink() = default;
};

// What libraries, call sites, code addresses and phases are; false or 0 where that is not known.
class name_source {
 public:
  struct module_name {
    unsigned number = 0;       // from 1
    std::uint64_t offset = 0;  // of the address in its file
    char const* path = nullptr;
  };
  static constexpr std::size_t most_frames = 16;

  virtual char const* library(unsigned id) noexcept = 0;
  virtual std::size_t site(unsigned number, std::uint64_t (&addresses)[most_frames]) noexcept = 0;
  virtual bool module(std::uint64_t address, module_name& found) noexcept = 0;
  virtual char const* phase(unsigned) noexcept { return nullptr; }

 protected:
  ~name_source() = default;
};

// Where a file stands, to be continued.
struct encoder_position {
  std::uint64_t offset = file_page;  // behind the last frame
  std::uint64_t chunk = 0;           // that frame's; 0: none yet
  std::uint32_t number = 0;          // of the next frame in it
  bool chunk_is_open = false;
  std::uint64_t until = 0;
  std::uint64_t events = 0;
};

class encoder {
 public:
  static constexpr std::uint64_t usual_chunk = std::uint64_t{16} << 20;

  // `max_bytes` of the file; 0: no limit.
  encoder(frame_sink& sink, name_source& names, std::uint64_t max_bytes) noexcept;
  // Before the first event: goes on behind frames that are there already, whose live set has been put in.
  void resume(encoder_position const& from) noexcept;
  live_set& live() noexcept { return live_; }
  void set_owner(std::uint8_t ring, std::uint32_t thread) noexcept { owners_[ring] = thread; }

  // In the order of stamps.
  void add(event const& one) noexcept;
  // Whatever was added goes to the sink. All events before the stamp `until` were added.
  void commit(std::uint64_t until) noexcept;
  // The same, and it is the end.
  void finish(std::uint64_t until) noexcept;

  bool failed() const noexcept { return failure_ != nullptr; }
  char const* failure() const noexcept { return failure_; }
  std::uint64_t events() const noexcept { return position_.events; }

 private:
  struct extent {
    std::uint64_t begin = 0, end = 0;
  };

  std::size_t most_frame() const noexcept;
  bool lay_within_limit(std::uint64_t live, extent& place) const noexcept;
  std::uint16_t whole_before() const noexcept;
  void begin_chunk(std::uint64_t stamp) noexcept;
  void open_frame(std::uint64_t stamp, std::uint16_t flags) noexcept;
  void close_frame(std::uint64_t until, std::uint16_t flags) noexcept;
  void put(event const& one) noexcept;
  void define_library(unsigned id) noexcept;
  void define_site(unsigned number) noexcept;
  void define_phase(unsigned number) noexcept;
  void put_text(char const* text) noexcept;

  frame_sink& sink_;
  name_source& names_;
  std::uint64_t const max_bytes_;
  std::uint64_t const chunk_bytes_;
  live_set live_;
  encoder_position position_;
  std::array<extent, 1024> laid_{};  // where the last chunks are, by number
  std::uint64_t first_laid_ = ~std::uint64_t{0};
  std::uint64_t chunk_end_ = 0;  // no frame begins where it could pass this
  std::uint64_t frame_events_ = 0;
  std::uint64_t last_stamp_ = 0;
  frame_head head_{};
  bool frame_is_open_ = false;
  bool resumes_ = false;
  byte_writer out_;
  unsigned char* frame_ = nullptr;
  coding_context before_;
  std::array<std::uint32_t, 256> owners_{};  // thread of each ring
  // What this chunk has said already.
  std::bitset<256> told_rings_, told_libraries_;
  std::bitset<1 << 16> told_sites_;
  std::bitset<1 << 10> told_modules_, told_phases_;
  char const* failure_ = nullptr;
};

}  // namespace gpumem::recording
