// See recover.hpp. First the frames that waited in the spool, at their places; then the events of the rings
// that are in no frame, as a new chunk.
#include "core/recording/reader/recover.hpp"

#include <fcntl.h>
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

class nothing_known final : public name_source {
 public:
  char const* library(unsigned) noexcept override { return nullptr; }
  std::size_t site(unsigned, std::uint64_t (&)[most_frames]) noexcept override { return 0; }
  bool module(std::uint64_t, module_name&) noexcept override { return false; }
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
    int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0) return;
    struct stat there {};
    if (::fstat(descriptor, &there) == 0 && S_ISREG(there.st_mode) && there.st_size == sizeof(area)) {
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
    return left != nullptr && std::memcmp(left->head.magic, area_magic, sizeof area_magic) == 0 &&
           left->head.recording_device == file.st_dev && left->head.recording_inode == file.st_ino;
  }

  area* left = nullptr;
};

bool write_spool(area& from, int descriptor) {
  std::vector<slot_state*> full;
  for (slot_state& slot : from.slots) {
    if (slot.number.load() != 0 && slot.bytes <= slot_bytes) full.push_back(&slot);
  }
  std::sort(full.begin(), full.end(),
            [](auto* one, auto* other) { return one->number.load() < other->number.load(); });
  return std::all_of(full.begin(), full.end(), [&](slot_state* slot) {
    return write_all_at(descriptor, from.spool[slot - from.slots], slot->bytes, slot->offset);
  });
}

// Behind the last chunk of the file, with what is live there.
void resume(encoder& to, recording_file const& file) {
  if (file.chunks().empty()) return;
  chunk_summary const& last = file.chunks().back();
  std::uint64_t events = last.events_before;
  std::vector<fault> ignored;
  file.read_chunk(
      last,
      [&](recording_file::item const& each) {
        if (each.what.what == action::thread) to.set_owner(each.what.ring, each.what.number);
        to.live().apply(each.what);
        events += each.is_live || each.what.what == action::thread ? 0 : 1;
      },
      ignored);
  to.resume({.offset = last.end,
             .chunk = last.number,
             .number = last.frames,
             .until = last.until,
             .events = events});
}

recovery_result complete(std::string const& path, int descriptor, left_buffers& buffers) {
  if (!write_spool(*buffers.left, descriptor)) return {recovery::failed, std::strerror(errno)};
  recording_file file;
  if (std::string const error = file.open(path); !error.empty()) return {recovery::failed, error};
  std::uint64_t const from = file.chunks().empty() ? 0 : file.chunks().back().until;
  straight_sink sink(descriptor);
  nothing_known names;
  encoder encode(sink, names, file.head().max_bytes);
  resume(encode, file);
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
  struct stat there {};
  ::fstat(descriptor, &there);
  left_buffers buffers(head.rings);
  recovery_result const result =
      buffers.are_of(there)
          ? complete(path, descriptor, buffers)
          : recovery_result{recovery::no_buffers, std::string("its buffers, ") + head.rings + ", are gone"};
  ::close(descriptor);
  return result;
}

}  // namespace gpumem::recording
