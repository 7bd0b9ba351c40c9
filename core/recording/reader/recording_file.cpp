// See recording_file.hpp. The file is mapped; a file that shrinks meanwhile is its owner's fault.
#include "core/recording/reader/recording_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/recording/codec.hpp"

namespace gpumem::recording {
namespace {

constexpr std::uint32_t most_frame_bytes = 1 << 20;

template <std::size_t size>
void end_text(char (&text)[size]) noexcept {
  text[size - 1] = '\0';
}

// The texts of a definition.
bool read_definition(action what, byte_reader& in, names& to) {
  auto const text = [&in] {
    auto const bytes = in.get_bytes(in.get_number());
    return std::string(bytes.begin(), bytes.end());
  };
  if (what == action::library) {
    unsigned const id = in.get();
    to.libraries[id] = text();
  } else if (what == action::module) {
    auto const number = static_cast<unsigned>(in.get_number());
    to.modules[number] = text();
  } else if (what == action::site) {
    auto const number = static_cast<unsigned>(in.get_number());
    std::uint64_t const count = in.get_number();
    if (count > 64) return false;
    auto& frames = to.sites[number];
    frames.clear();
    for (std::uint64_t i = 0; i < count; ++i) {
      auto const module = static_cast<unsigned>(in.get_number());
      frames.push_back({module, in.get_number()});
    }
  } else if (what == action::phase) {
    auto const number = static_cast<unsigned>(in.get_number());
    to.phases[number] = text();
  } else {
    return false;
  }
  return in.good();
}

}  // namespace

recording_file::~recording_file() {
  if (begin_ != nullptr) ::munmap(const_cast<unsigned char*>(begin_), size_);
}

std::string recording_file::open(std::string const& path) {
  int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO has no writer
  if (descriptor < 0) return "cannot open " + path + ": " + std::strerror(errno);
  struct stat there {};
  bool const known = ::fstat(descriptor, &there) == 0;
  bool const plain = known && S_ISREG(there.st_mode);
  void* base = MAP_FAILED;
  if (plain && static_cast<std::size_t>(there.st_size) >= sizeof(file_head)) {
    size_ = static_cast<std::uint64_t>(there.st_size);
    base = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  }
  int const reason = errno;
  std::string const error = base == MAP_FAILED ? "" : adopt(base, path);
  if (base != MAP_FAILED && error.empty()) find_chunks(descriptor);
  ::close(descriptor);
  if (!plain) return path + " is no plain file";
  if (size_ == 0) return path + " is no recording: it has " + std::to_string(there.st_size) + " bytes";
  if (base == MAP_FAILED) return "cannot read " + path + ": " + std::strerror(reason);
  return error;
}

std::string recording_file::adopt(void const* base, std::string const& path) {
  begin_ = static_cast<unsigned char const*>(base);
  std::memcpy(&head_, begin_, sizeof head_);
  if (std::memcmp(head_.magic, file_magic, sizeof file_magic) != 0) return path + " is no recording";
  if (head_.version != format_version)
    return path + " has version " + std::to_string(head_.version) + " of the format; this gpumem reads " +
           std::to_string(format_version);
  end_text(head_.program), end_text(head_.tool_version), end_text(head_.rings), end_text(head_.reason);
  return "";
}

bool recording_file::frame_at(std::uint64_t offset, frame_head& head) const noexcept {
  if (offset > size_ || size_ - offset < sizeof head) return false;
  std::memcpy(&head, begin_ + offset, sizeof head);
  if (head.magic != frame_magic || head.bytes < sizeof head || head.bytes > most_frame_bytes) return false;
  if (head.bytes > size_ - offset || head.chunk == 0) return false;
  return checksum_of({begin_ + offset + behind_checksum, head.bytes - behind_checksum}) == head.checksum;
}

void recording_file::note_clock(frame_head const& head) {
  if (head.written.stamp != 0) clock_.push_back(head.written);
}

// The frames of the chunk that begins here.
bool recording_file::follow(chunk_summary& chunk) {
  frame_head head{};
  if (!frame_at(chunk.offset, head) || head.number != 0) return false;
  chunk.number = head.chunk;
  chunk.events_before = head.events;
  chunk.whole_before = head.whole_before;
  chunk.end = chunk.offset;
  chunk.is_resumed = (head.flags & resumed) != 0;
  while (frame_at(chunk.end, head) && head.chunk == chunk.number && head.number == chunk.frames) {
    note_clock(head);
    ++chunk.frames;
    if ((head.flags & live_frame) != 0) ++chunk.live_frames;
    chunk.end += head.bytes;
    chunk.until = head.until;
    chunk.is_whole = (head.flags & last_of_chunk) != 0;
    chunk.is_last = (head.flags & last_of_file) != 0;
    if (chunk.is_whole) break;
  }
  return true;
}

void recording_file::find_chunks(int descriptor) {
  for (std::uint64_t at = file_page; at < size_;) {
    chunk_summary chunk{.offset = at};
    bool const found = follow(chunk);
    if (found) chunks_.push_back(chunk);
    std::uint64_t behind = std::max(chunk.end, at + 1);
    // Over a hole, which may be longer than anybody can look through.
    off_t const next = found ? -1 : ::lseek(descriptor, static_cast<off_t>(at), SEEK_DATA);
    if (next > 0) behind = std::max(behind, static_cast<std::uint64_t>(next));
    if (!found && next < 0 && errno == ENXIO) break;
    at = (behind + file_page - 1) / file_page * file_page;
  }
  std::sort(chunks_.begin(), chunks_.end(),
            [](auto const& one, auto const& other) { return one.number < other.number; });
  // Where its first events were to come: perhaps not all that was live is there, and the chunk before it has
  // all of that.
  if (chunks_.size() > 1 && chunks_.back().frames == chunks_.back().live_frames) chunks_.pop_back();
  clock_.push_back(head_.began);
  std::sort(clock_.begin(), clock_.end(),
            [](auto const& one, auto const& other) { return one.stamp < other.stamp; });
  if (head_.max_bytes != 0) leave_out_overwritten();
  find_faults();
}

// Chunks differ in size: a new one may have overwritten several, and left the oldest one alone.
void recording_file::leave_out_overwritten() {
  if (chunks_.empty()) return;
  std::uint64_t const oldest =
      chunks_.back().number - std::min(chunks_.back().number, chunks_.back().whole_before);
  for (std::size_t i = chunks_.size(); --i > 0;) {
    if (chunks_[i - 1].number + 1 >= chunks_[i].number) continue;
    if (chunks_[i].number <= oldest)
      chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

void recording_file::find_faults() {
  bool const at_work = head_.state == end_state::open,
             left_off = at_work || head_.state == end_state::stopped;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    chunk_summary const& one = chunks_[i];
    bool const newest = i + 1 == chunks_.size();
    std::string const name = "chunk " + std::to_string(one.number);
    bool const left_open = newest ? left_off : chunks_[i + 1].is_resumed;
    if (!one.is_whole && !one.is_last && !left_open)
      faults_.push_back({one.end, name + " is torn: what follows here is no frame of it"});
    if (!newest && chunks_[i + 1].number != one.number + 1)
      faults_.push_back(
          {one.end, "behind " + name + " comes chunk " + std::to_string(chunks_[i + 1].number)});
  }
  if (head_.max_bytes == 0 && !chunks_.empty() && chunks_.front().number != 1)
    faults_.push_back({file_page, "the first chunk is missing"});
  if (chunks_.empty() && !at_work) faults_.push_back({std::min(file_page, size_), "there is no chunk"});
  if (!chunks_.empty() && !at_work && head_.state != end_state::stopped && !chunks_.back().is_last)
    faults_.push_back({chunks_.back().end, "the end is missing"});
}

std::uint64_t recording_file::wall_of(std::uint64_t stamp) const noexcept {
  auto after = std::lower_bound(clock_.begin(), clock_.end(), stamp,
                                [](clock_pair const& one, std::uint64_t at) { return one.stamp < at; });
  if (clock_.size() < 2) return head_.began.wall_ns;
  if (after == clock_.begin()) ++after;
  if (after == clock_.end()) --after;
  clock_pair const& late = *after;
  clock_pair const& early = *(after - 1);
  if (late.stamp == early.stamp) return early.wall_ns;
  auto const ticks = static_cast<double>(late.stamp - early.stamp);
  auto const time = static_cast<double>(static_cast<std::int64_t>(late.wall_ns - early.wall_ns));
  auto const since = static_cast<double>(static_cast<std::int64_t>(stamp - early.stamp));
  return early.wall_ns + static_cast<std::uint64_t>(static_cast<std::int64_t>(since / ticks * time));
}

bool recording_file::read_chunk(chunk_summary const& which, visitor const& visit,
                                std::vector<fault>& faults) const {
  names known;
  std::uint64_t at = which.offset;
  for (std::uint32_t i = 0; i < which.frames; ++i) {
    frame_head head{};
    std::memcpy(&head, begin_ + at, sizeof head);
    byte_reader in({begin_ + at + sizeof head, head.bytes - sizeof head});
    coding_context before{.stamp = head.first_stamp};
    while (!in.at_end()) {
      std::uint64_t const here = at + sizeof head + in.at();
      event one;
      bool good = decode(in, before, one);
      if (good && one.what >= action::library) {
        good = read_definition(one.what, in, known);
      } else if (good) {
        if (one.what == action::thread) known.threads[one.ring] = one.number;
        visit({one, (head.flags & live_frame) != 0, wall_of(one.stamp), known});
      }
      if (good) continue;
      faults.push_back({here, "these bytes are no event"});
      return false;
    }
    at += head.bytes;
  }
  return true;
}

bool recording_file::read(visitor const& visit, std::vector<fault>& faults) const {
  bool good = true;
  for (chunk_summary const& one : chunks_) {
    bool const first = one.number == chunks_.front().number;
    good = read_chunk(
               one,
               [&](item const& each) {
                 if (first || !each.is_live) visit(each);
               },
               faults) &&
           good;
  }
  return good;
}

}  // namespace gpumem::recording
