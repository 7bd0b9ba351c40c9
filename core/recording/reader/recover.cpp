// See recover.hpp. First the frames that waited in the spool, at their places; then the events of the rings
// that are in no frame, as a new chunk.
#include "core/recording/reader/recover.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/recording/encoder.hpp"
#include "core/recording/reader/recording_file.hpp"
#include "core/recording/ring_merge.hpp"
#include "core/stats/page/process_life.hpp"

namespace gpumem::recording {
namespace {

// Of the process nothing is left but its file: the last chunk has the names of phases.
class names_of_file final : public name_source {
 public:
  char const* library(unsigned) noexcept override { return nullptr; }
  std::size_t site(unsigned, std::uint64_t (&)[most_frames]) noexcept override { return 0; }
  bool module(std::uint64_t, module_name&) noexcept override { return false; }
  char const* phase(unsigned number) noexcept override {
    auto const found = phases.find(number);
    return found == phases.end() ? nullptr : found->second.c_str();
  }

  std::map<unsigned, std::string> phases;
};

bool write_all_at(int descriptor, void const* from, std::size_t bytes, std::uint64_t offset) noexcept {
  return ::pwrite(descriptor, from, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

class straight_sink final : public frame_sink {
 public:
  explicit straight_sink(int descriptor) : descriptor_(descriptor), buffer_(slot_bytes) {}
  std::span<unsigned char> buffer() noexcept override {
    return failed ? std::span<unsigned char>{} : std::span<unsigned char>(buffer_);
  }
  void write(std::uint64_t offset, std::size_t bytes) noexcept override {
    failed = failed || !write_all_at(descriptor_, buffer_.data(), bytes, offset);
  }
  clock_pair now() noexcept override { return {}; }

  bool failed = false;

 private:
  int const descriptor_;
  std::vector<unsigned char> buffer_;
};

// The buffers, as a copy that may be changed.
class left_buffers {
 public:
  explicit left_buffers(std::string const& path) {
    int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) return;
    struct stat there {};
    // Who made the recording named them, and they are removed at the end: they must be one's own.
    if (::fstat(descriptor, &there) == 0 && S_ISREG(there.st_mode) && there.st_uid == ::geteuid() &&
        there.st_size == sizeof(area)) {
      void* const base =
          ::mmap(nullptr, sizeof(area), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor, 0);
      if (base != MAP_FAILED) left = static_cast<area*>(base);
    }
    ::close(descriptor);
  }
  left_buffers(left_buffers const&) = delete;
  ~left_buffers() {
    if (left != nullptr) ::munmap(left, sizeof(area));
  }
  bool are_of(struct stat const& file) const noexcept {
    return left != nullptr && file.st_uid == ::geteuid() &&
           std::memcmp(left->head.magic, area_magic, sizeof area_magic) == 0 &&
           left->head.recording_device == file.st_dev && left->head.recording_inode == file.st_ino;
  }

  area* left = nullptr;
};

// A frame of the recording, for a place where one may be.
bool is_frame(slot_state const& slot, unsigned char const* bytes, std::uint64_t file_bytes) noexcept {
  std::uint64_t const furthest = file_bytes + spool_slots * (slot_bytes + file_page);
  frame_head head{};
  if (slot.bytes < sizeof head || slot.bytes > slot_bytes || slot.offset < file_page ||
      slot.offset > furthest)
    return false;
  std::memcpy(&head, bytes, sizeof head);
  return head.magic == frame_magic && head.bytes == slot.bytes &&
         checksum_of({bytes + behind_checksum, head.bytes - behind_checksum}) == head.checksum;
}

bool write_spool(area& from, int descriptor, std::uint64_t file_bytes) {
  std::vector<slot_state*> full;
  for (std::size_t i = 0; i < spool_slots; ++i) {
    slot_state& slot = from.slots[i];
    if (slot.number.load() != 0 && is_frame(slot, from.spool[i], file_bytes)) full.push_back(&slot);
  }
  std::sort(full.begin(), full.end(),
            [](auto* one, auto* other) { return one->number.load() < other->number.load(); });
  return std::all_of(full.begin(), full.end(), [&](slot_state* slot) {
    return write_all_at(descriptor, from.spool[slot - from.slots], slot->bytes, slot->offset);
  });
}

// Behind the last chunk of the file, with what is live there.
void resume(encoder& to, recording_file const& file, names_of_file& known) {
  if (file.chunks().empty()) return;
  chunk_summary const& last = file.chunks().back();
  std::uint64_t events = last.events_before;
  std::vector<fault> ignored;
  file.read_chunk(
      last,
      [&](recording_file::item const& each) {
        if (each.what.what == action::thread) to.set_owner(each.what.ring, each.what.number);
        to.live().apply(each.what);
        known.phases = each.known.phases;
        events += each.is_live || each.what.what == action::thread ? 0 : 1;
      },
      ignored);
  to.resume({.offset = last.end,
             .chunk = last.number,
             .number = last.frames,
             .until = last.until,
             .events = events});
}

recovery_result complete(std::string const& path, int descriptor, left_buffers& buffers,
                         std::uint64_t file_bytes) {
  if (!write_spool(*buffers.left, descriptor, file_bytes)) return {recovery::failed, std::strerror(errno)};
  recording_file file;
  if (std::string const error = file.open(path); !error.empty()) return {recovery::failed, error};
  std::uint64_t const from = file.chunks().empty() ? 0 : file.chunks().back().until;
  straight_sink sink(descriptor);
  names_of_file names;
  encoder encode(sink, names, file.head().max_bytes);
  resume(encode, file, names);
  ring_merge merge(*buffers.left);
  merge.begin(~std::uint64_t{0});
  std::uint64_t last = from;
  for (event const* one = merge.peek(); one != nullptr; one = merge.peek()) {
    if (one->stamp >= from) encode.add(*one);
    last = std::max(last, one->stamp);
    merge.pop();
  }
  encode.finish(last + 1);
  if (encode.failed() || sink.failed)
    return {recovery::failed, encode.failed() ? encode.failure() : std::strerror(errno)};
  file_head head = file.head();
  head.state = end_state::recovered;
  head.events = encode.events();
  std::string const left = head.rings;
  head.rings[0] = '\0';
  if (!write_all_at(descriptor, &head, sizeof head, 0)) return {recovery::failed, std::strerror(errno)};
  ::unlink(left.c_str());
  return {recovery::done, ""};
}

// One at a time: who comes second finds it done.
recovery_result complete_alone(std::string const& path, int descriptor, file_head& head) {
  while (::flock(descriptor, LOCK_EX) != 0 && errno == EINTR) {
  }
  if (::pread(descriptor, &head, sizeof head, 0) != sizeof head)
    return {recovery::failed, std::strerror(errno)};
  if (head.state != end_state::open) return {};
  head.rings[sizeof head.rings - 1] = '\0';
  struct stat there {};
  ::fstat(descriptor, &there);
  left_buffers buffers(head.rings);
  if (buffers.are_of(there))
    return complete(path, descriptor, buffers, static_cast<std::uint64_t>(there.st_size));
  return {recovery::no_buffers, std::string("its buffers, ") + head.rings + ", are gone, or another user's"};
}

}  // namespace

recovery_result recover(std::string const& path) {
  file_head head{};
  {
    recording_file file;
    if (std::string const error = file.open(path); !error.empty()) return {recovery::failed, error};
    head = file.head();
  }
  if (head.state != end_state::open) return {};
  if (stats::life_of(head.pid, head.start_ticks, head.pid_namespace) != stats::process_life::ended)
    return {recovery::still_written, "its process still runs"};
  if (head.rings[0] == '\0') return {recovery::no_buffers, "its buffers were in plain memory"};
  int const descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return {recovery::failed, std::strerror(errno)};
  recovery_result const result = complete_alone(path, descriptor, head);
  ::close(descriptor);
  return result;
}

stats::process_life life_of_buffers(std::string const& path, pid_t pid, std::uint64_t start_ticks) {
  std::uint64_t space = 0;
  int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor >= 0) {
    constexpr off_t place = offsetof(area, head) + offsetof(area_head, pid_namespace);
    if (::pread(descriptor, &space, sizeof space, place) != sizeof space) space = 0;
    ::close(descriptor);
  }
  return stats::life_of(pid, start_ticks, space);
}

}  // namespace gpumem::recording
