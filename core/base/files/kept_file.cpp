// See kept_file.hpp.
#include "core/base/files/kept_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace gpumem::base {
namespace {

// High up, so that the program's own descriptors get the numbers they would get without us.
int moved_up(int descriptor) noexcept {
  int const high = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 500);
  if (high < 0) return descriptor;
  ::close(descriptor);
  return high;
}

}  // namespace

bool kept_file::keep(int descriptor, char const* path, int flags) noexcept {
  if (std::strlen(path) >= sizeof path_) {
    errno = ENAMETOOLONG;
    return false;
  }
  struct stat there {};
  if (::fstat(descriptor, &there) != 0) return false;
  std::strcpy(path_, path);
  descriptor_ = moved_up(descriptor);
  flags_ = flags;
  device_ = there.st_dev;
  inode_ = there.st_ino;
  return true;
}

bool kept_file::is_there() const noexcept {
  struct stat there {};
  return ::fstat(descriptor_, &there) == 0 && there.st_dev == device_ && there.st_ino == inode_ &&
         there.st_nlink != 0;
}

// A file that was removed takes what is written, and nobody will ever read it.
int kept_file::descriptor() noexcept {
  if (is_there()) return descriptor_;
  descriptor_ = ::open(path_, flags_ | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor_ < 0) return -1;
  descriptor_ = moved_up(descriptor_);
  if (is_there()) return descriptor_;
  ::close(descriptor_);
  descriptor_ = -1;
  return -1;
}

void kept_file::drop() noexcept {
  if (descriptor_ >= 0 && is_there()) ::close(descriptor_);
  *this = {};
}

}  // namespace gpumem::base
