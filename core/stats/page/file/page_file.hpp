// The file of a state page: its private folder, its creation, disk space for its parts, and the marks that
// tell its process from another one with the same pid. Used by state_page and, to find pages, by `gpumem`.
// Any thread. Keeps no descriptor open: programs close or reuse numbers that they do not know. No heap: the
// program's first CUDA call is waiting.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpumem::stats {

inline constexpr std::size_t path_limit = 512;

// GPUMEM_STATE_DIR, or $XDG_RUNTIME_DIR/gpumem if that is this user's, or /tmp/gpumem-UID; absolute. False
// when the name is too long, or relative to a folder that is gone.
bool state_directory(char (&path)[path_limit]) noexcept;

// Null when `path` is a folder of ours, private to us, no link; else why not. Creates it when `create` and
// absent.
char const* check_directory(char const* path, bool create) noexcept;

// "/proc/PID/stat", field 22; 0 when there is no such process.
std::uint64_t start_ticks_of(pid_t pid) noexcept;
// The number of the namespace that this process has its PID in; 0: not told.
std::uint64_t pid_namespace() noexcept;

struct file_part {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

struct page_file {
  static constexpr std::size_t most_parts = 3;

  char path[path_limit] = {};  // empty: plain memory
  dev_t device = 0;
  ino_t inode = 0;
  file_part reserved[most_parts] = {};  // what has had disk space since the file was made

  // Plain memory has no need of any.
  bool has_space_for(std::size_t offset, std::size_t bytes) const noexcept;
};

// Creates PID-START-N in `directory`, `bytes` long and sparse, with disk space for `parts`, and maps it. Null
// on failure, with the reason in `reason`; nothing is left behind then. Only the first part must have its
// space: the others ask again when they are used (back_or_replace), and cost no look at the file if they got
// it here.
void* create_and_map(char const* directory, std::size_t bytes, std::span<file_part const> parts,
                     page_file& file, unsigned& exec_no, char const*& reason) noexcept;

// Reserves disk space for a part of the mapped file, so that writing to it can never raise SIGBUS on a full
// disk. Where that fails the part becomes plain memory at the same address; false then, with the reason.
bool back_or_replace(page_file const& file, void* base, std::size_t offset, std::size_t bytes,
                     char const*& reason) noexcept;

// A page file that has lost its name, open while it may need one again.
struct held_file {
  page_file was;
  int descriptor = -1;
};
void hold(page_file const& file, held_file& held) noexcept;
void let_go(held_file& held) noexcept;
// Makes the file anew, in its folder under the next free name, with what it held, and in the place of the
// mapping at `base`. False where that fails: all is as before then, without a file. What other threads write
// meanwhile may be lost.
bool make_again(held_file const& held, void* base, std::size_t bytes, page_file& file,
                unsigned& exec_no) noexcept;

}  // namespace gpumem::stats
