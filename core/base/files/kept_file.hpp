// A file that stays open while the program runs. Programs close descriptors that they do not know, and open
// others in their place: before each use it is looked at, and opened again by its name where it is not there
// any more. One thread at a time; no heap.
#pragma once

#include <sys/types.h>

namespace gpumem::base {

class kept_file {
 public:
  // Takes the descriptor over, to a high number. `flags` are those to open it with again. False: errno says
  // why.
  bool keep(int descriptor, char const* path, int flags) noexcept;
  // To be written to now; -1: the file is gone.
  int descriptor() noexcept;
  // In a forked child: the parent's file.
  void drop() noexcept;

  char const* path() const noexcept { return path_; }
  dev_t device() const noexcept { return device_; }
  ino_t inode() const noexcept { return inode_; }

 private:
  bool is_there() const noexcept;

  int descriptor_ = -1;
  int flags_ = 0;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  char path_[1024] = {};
};

}  // namespace gpumem::base
