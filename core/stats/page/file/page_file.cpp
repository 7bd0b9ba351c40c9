// See page_file.hpp.
#include "core/stats/page/file/page_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/environment.hpp"
#include "core/base/populate_pages.hpp"

namespace gpumem::stats {
namespace {

// Growing a file beyond RLIMIT_FSIZE raises SIGXFSZ, which ends a program that does not expect it.
bool within_file_size_limit(std::size_t bytes) noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
         (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes);
}

// fallocate(2), or zeros written by hand where the file system has no such call (NFS 3).
bool reserve_space(int descriptor, std::size_t offset, std::size_t bytes) noexcept {
  int code = 0;
  do {
    code = ::fallocate(descriptor, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (code != 0 && errno == EINTR);
  if (code == 0) return true;
  if (errno != EOPNOTSUPP || !within_file_size_limit(offset + bytes)) return false;
  static constexpr char zeros[4096] = {};
  for (std::size_t done = 0; done < bytes;) {
    std::size_t const part = bytes - done < sizeof zeros ? bytes - done : sizeof zeros;
    ssize_t const written = ::pwrite(descriptor, zeros, part, static_cast<off_t>(offset + done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<std::size_t>(written);
  }
  return true;
}

// Without its holes.
bool copy_data(int from, int to) noexcept {
  char buffer[4096];
  off_t at = 0;
  while ((at = ::lseek(from, at, SEEK_DATA)) >= 0) {
    off_t const end = ::lseek(from, at, SEEK_HOLE);
    while (at < end) {
      auto const wanted = std::min<std::size_t>(sizeof buffer, static_cast<std::size_t>(end - at));
      ssize_t const length = ::pread(from, buffer, wanted, at);
      if (length < 0 && errno == EINTR) continue;
      if (length <= 0 || ::pwrite(to, buffer, static_cast<std::size_t>(length), at) != length) return false;
      at += length;
    }
    if (end < 0) return false;
  }
  return errno == ENXIO;  // the end of the data
}

}  // namespace

// `sudo -E` hands on the variable of another user, whose folder is not to be filled.
static bool is_own_folder(char const* path) noexcept {
  struct stat there {};
  return ::stat(path, &there) == 0 && S_ISDIR(there.st_mode) && there.st_uid == ::geteuid() &&
         ::access(path, W_OK) == 0;
}

// A folder of root's in another user's would keep that user from making it. Sticky ones are meant for all.
static bool is_of_another_user(char const* path) noexcept {
  char parent[path_limit];
  std::snprintf(parent, sizeof parent, "%s", path);
  char* const slash = std::strrchr(parent, '/');
  if (slash == nullptr) return false;
  slash[slash == parent ? 1 : 0] = '\0';
  struct stat there {};
  return ::geteuid() == 0 && ::stat(parent, &there) == 0 && there.st_uid != 0 &&
         (there.st_mode & S_ISVTX) == 0;
}

bool state_directory(char (&path)[path_limit]) noexcept {
  char const* chosen = base::user_variable("GPUMEM_STATE_DIR");
  char const* runtime = base::user_variable("XDG_RUNTIME_DIR");
  int length = 0;
  if (chosen != nullptr && *chosen == '/') {
    length = std::snprintf(path, sizeof path, "%s", chosen);
  } else if (chosen != nullptr && *chosen != '\0') {
    char here[path_limit];  // the program may change its folder later
    if (::getcwd(here, sizeof here) != nullptr)
      length = std::snprintf(path, sizeof path, "%s/%s", here, chosen);
  } else if (runtime != nullptr && *runtime == '/' && is_own_folder(runtime)) {
    length = std::snprintf(path, sizeof path, "%s/gpumem", runtime);
  } else {
    length = std::snprintf(path, sizeof path, "/tmp/gpumem-%u", static_cast<unsigned>(::geteuid()));
  }
  return length > 0 && static_cast<std::size_t>(length) < sizeof path - 64;  // room for the file's name
}

char const* check_directory(char const* path, bool create) noexcept {
  struct stat there {};
  if (::lstat(path, &there) != 0) {
    if (!create || errno != ENOENT) return std::strerror(errno);
    if (is_of_another_user(path))
      return "the folder around it belongs to another user, who could not make it then";
    if (::mkdir(path, 0700) != 0 && errno != EEXIST) return std::strerror(errno);
    if (::lstat(path, &there) != 0) return std::strerror(errno);
  }
  if (S_ISLNK(there.st_mode)) return "it is a symbolic link; it must be a folder";
  if (!S_ISDIR(there.st_mode)) return "it is not a folder";
  if (there.st_uid != ::geteuid()) return "it belongs to another user";
  if ((there.st_mode & 077) != 0) return "others can enter it; its mode must be 0700";
  return nullptr;
}

std::uint64_t start_ticks_of(pid_t pid) noexcept {
  char text[1024];
  std::snprintf(text, sizeof text, "/proc/%d/stat", static_cast<int>(pid));
  int const descriptor = ::open(text, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  ssize_t const length = ::read(descriptor, text, sizeof text - 1);
  ::close(descriptor);
  if (length <= 0) return 0;
  text[length] = '\0';
  char const* at = std::strrchr(text, ')');  // the program's name, field 2, may hold blanks and brackets
  for (int field = 2; at != nullptr && field < 22; ++field) {
    at = std::strchr(at + 1, ' ');
  }
  return at == nullptr ? 0 : std::strtoull(at, nullptr, 10);
}

std::uint64_t pid_namespace() noexcept {
  struct stat there {};
  return ::stat("/proc/self/ns/pid", &there) == 0 ? there.st_ino : 0;
}

bool page_file::has_space_for(std::size_t offset, std::size_t bytes) const noexcept {
  return path[0] == '\0' || std::ranges::any_of(reserved, [=](file_part const& part) {
           return offset >= part.offset && offset + bytes <= part.offset + part.bytes;
         });
}

void hold(page_file const& file, held_file& held) noexcept {
  let_go(held);
  held = {file, file.path[0] == '\0' ? -1 : ::open(file.path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)};
  struct stat there {};
  bool const same = held.descriptor >= 0 && ::fstat(held.descriptor, &there) == 0 &&
                    there.st_dev == file.device && there.st_ino == file.inode;
  if (!same) let_go(held);
}

void let_go(held_file& held) noexcept {
  if (held.descriptor >= 0) ::close(held.descriptor);
  held = held_file{};
}

bool make_again(held_file const& held, void* base, std::size_t bytes, page_file& file,
                unsigned& exec_no) noexcept {
  if (held.descriptor < 0) return false;
  char directory[path_limit];
  std::snprintf(directory, sizeof directory, "%s", held.was.path);
  if (char* const slash = std::strrchr(directory, '/')) *slash = '\0';
  auto const last = std::ranges::find(held.was.reserved, 0u, &file_part::bytes);
  std::span const parts(held.was.reserved, last);
  page_file made;
  char const* reason = "";
  void* const other = create_and_map(directory, bytes, parts, made, exec_no, reason);
  if (other == nullptr) return false;
  int const to = ::open(made.path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  bool const good = to >= 0 && copy_data(held.descriptor, to) &&
                    ::mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, to, 0) != MAP_FAILED;
  if (to >= 0) ::close(to);
  ::munmap(other, bytes);
  if (good) {
    ::madvise(base, bytes, MADV_RANDOM);
    file = made;
  } else {
    ::unlink(made.path);
  }
  return good;
}

void* create_and_map(char const* directory, std::size_t bytes, std::span<file_part const> parts,
                     page_file& file, unsigned& exec_no, char const*& reason) noexcept {
  file = page_file{};
  reason = check_directory(directory, true);
  if (reason != nullptr) return nullptr;
  if (!within_file_size_limit(bytes)) {
    reason = "the limit on file sizes (ulimit -f) is below 17 MiB";
    return nullptr;
  }
  auto const pid = ::getpid();
  auto const ticks = static_cast<unsigned long long>(start_ticks_of(pid));
  int descriptor = -1;
  // exec keeps pid and start time: the next free number tells the images of one process apart.
  for (exec_no = 0; exec_no < 100000; ++exec_no) {
    std::snprintf(file.path, sizeof file.path, "%s/%d-%llu-%u", directory, static_cast<int>(pid), ticks,
                  exec_no);
    descriptor = ::open(file.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (descriptor >= 0 || errno != EEXIST) break;
  }
  struct stat made {};
  void* base = MAP_FAILED;
  if (descriptor >= 0 && ::fstat(descriptor, &made) == 0 &&
      ::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0 &&
      reserve_space(descriptor, parts[0].offset, parts[0].bytes)) {
    base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  if (base == MAP_FAILED) {
    reason = std::strerror(errno);
    if (descriptor >= 0) ::unlink(file.path);
    file = page_file{};
  } else {
    // Without it each first touch reads ahead, from a file that holds nothing: 2 ms at the start, on ext4.
    ::madvise(base, bytes, MADV_RANDOM);
    file.device = made.st_dev;
    file.inode = made.st_ino;
    std::size_t count = 0;
    for (file_part const& part : parts.first(std::min(parts.size(), page_file::most_parts))) {
      if (count == 0 || reserve_space(descriptor, part.offset, part.bytes)) file.reserved[count++] = part;
    }
  }
  if (descriptor >= 0) ::close(descriptor);
  return base == MAP_FAILED ? nullptr : base;
}

bool back_or_replace(page_file const& file, void* base, std::size_t offset, std::size_t bytes,
                     char const*& reason) noexcept {
  if (file.has_space_for(offset, bytes)) return true;
  char* const part = static_cast<char*>(base) + offset;
  errno = 0;
  int const descriptor = ::open(file.path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  struct stat there {};
  bool const same = descriptor >= 0 && ::fstat(descriptor, &there) == 0 && there.st_dev == file.device &&
                    there.st_ino == file.inode;
  bool backed = same && reserve_space(descriptor, offset, bytes);
  if (!same) {
    // Out of reach (chroot, setuid, moved): the pages are made by the mapping, which fails and does not
    // raise.
    reason = errno != 0 ? std::strerror(errno) : "another file has its name";
    backed = base::populate_pages(part, bytes);
  } else if (!backed) {
    reason = std::strerror(errno);
  }
  if (descriptor >= 0) ::close(descriptor);
  if (!backed) {
    ::mmap(part, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
           0);
  }
  return backed;
}

}  // namespace gpumem::stats
