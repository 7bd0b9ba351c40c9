// See page_reader.hpp.
#include "core/stats/page_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace gpumem::stats {

bool mapped_page_reader::read(std::uint64_t offset, void* target, std::size_t bytes) {
  if (offset > sizeof(page) || bytes > sizeof(page) - offset || offset % 8 != 0) return false;
  auto* const from = reinterpret_cast<std::uint64_t*>(reinterpret_cast<char*>(&mapped_) + offset);
  std::size_t const words = bytes / 8;
  auto* const to = static_cast<char*>(target);
  for (std::size_t i = 0; i < words; ++i) {  // word by word, atomically: other threads are counting
    std::uint64_t const word = get(from[i]);
    std::memcpy(to + 8 * i, &word, 8);
  }
  if (bytes % 8 != 0) {
    std::uint64_t const word = get(from[words]);
    std::memcpy(to + 8 * words, &word, bytes % 8);
  }
  return true;
}

file_page_reader::file_page_reader(std::string const& path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat there {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &there) != 0) {
    error_ = path + ": " + std::strerror(errno);
  } else if (!S_ISREG(there.st_mode)) {
    error_ = path + ": not a file";
  } else {
    size_ = static_cast<std::uint64_t>(there.st_size);
  }
}

file_page_reader::~file_page_reader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool file_page_reader::read(std::uint64_t offset, void* target, std::size_t bytes) {
  if (offset > size_ || bytes > size_ - offset) return false;
  auto* to = static_cast<char*>(target);
  while (bytes != 0) {
    ssize_t const got = ::pread(descriptor_, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace gpumem::stats
