// Which file a descriptor names. A program may close a descriptor that we opened, and open a file of its
// own under the same number: compare before use. Any thread, at the start of every process too. Uses the
// plain system call, which nobody interposes; errno stays as it was.
#pragma once

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace gpumem::base {

struct file_identity {
  dev_t device = 0;
  ino_t number = 0;
  mode_t mode = 0;
  bool known = false;  // the descriptor is open

  // Inline: the constructor that asks at the start of every process then touches no further page of code.
  [[gnu::always_inline]] static inline file_identity of(int descriptor) noexcept {
    struct stat about {};
    int const saved = errno;
    bool const open = ::syscall(SYS_fstat, descriptor, &about) == 0;
    errno = saved;
    return open ? file_identity{about.st_dev, about.st_ino, about.st_mode, true} : file_identity{};
  }
  bool operator==(file_identity const&) const = default;
};

}  // namespace gpumem::base
