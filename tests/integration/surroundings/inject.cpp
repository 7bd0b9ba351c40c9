// A preload library that fails chosen calls which libgpumem.so makes of libc, and no other's. Loaded before
// it by faults.py; counts the calls of one kind, on any thread.
//   INJECT_KIND=malloc  malloc (calloc, realloc, aligned_alloc), mmap, madvise, open, read, write, size
//   (ftruncate,
//                       fallocate), stat, fcntl, unlink, key (pthread_key_create, pthread_setspecific), cwd
//   INJECT_AT=N         the Nth call fails; INJECT_ON=1: all from there on
//   INJECT_COUNT=FILE   of 8 bytes: they are the number of calls
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
int __pthread_key_create(pthread_key_t*, void (*)(void*)) noexcept;
}

namespace {

std::uintptr_t low = 0, high = 0;
std::atomic<long> own_count{0};
std::atomic<long>* calls = &own_count;
long at = 0;
bool and_on = false;
char const* kind = "";

int find_library(dl_phdr_info* info, std::size_t, void*) {
  if (strstr(info->dlpi_name, "libgpumem.so") == nullptr) return 0;
  low = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    auto const& part = info->dlpi_phdr[i];
    if (part.p_type == PT_LOAD) high = info->dlpi_addr + part.p_vaddr + part.p_memsz;
  }
  return 1;
}

[[gnu::constructor(101)]] void set_up() {
  auto const value = [](char const* name) { return getenv(name) != nullptr ? getenv(name) : ""; };
  kind = value("INJECT_KIND");
  at = atol(value("INJECT_AT"));
  and_on = *value("INJECT_ON") != 0;
  if (char const* const path = getenv("INJECT_COUNT")) {
    auto const file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDWR));
    auto const place =
        syscall(SYS_mmap, nullptr, sizeof own_count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    calls = reinterpret_cast<std::atomic<long>*>(place);
    syscall(SYS_close, file);
  }
  dl_iterate_phdr(&find_library, nullptr);
}

// `caller`: whose call it is. By return address, so the calls of others are left alone.
bool fails(void* caller, char const* what, int code) {
  auto const address = reinterpret_cast<std::uintptr_t>(caller);
  if (address < low || address >= high || strcmp(kind, what) != 0) return false;
  long const number = ++*calls;
  if (at == 0 || number < at || (number > at && !and_on)) return false;
  errno = code;
  return true;
}

}  // namespace

#define FAILS(what, code) fails(__builtin_return_address(0), what, code)

extern "C" {

void* malloc(size_t bytes) {
  return FAILS("malloc", ENOMEM) ? nullptr : __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  return FAILS("malloc", ENOMEM) ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  return FAILS("malloc", ENOMEM) ? nullptr : __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return FAILS("malloc", ENOMEM) ? nullptr : __libc_memalign(alignment, bytes);
}
void* mmap(void* place, size_t bytes, int access, int flags, int file, off_t offset) noexcept {
  if (FAILS("mmap", ENOMEM)) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, place, bytes, access, flags, file, offset));
}
int madvise(void* place, size_t bytes, int advice) noexcept {
  return FAILS("madvise", EINVAL) ? -1 : static_cast<int>(syscall(SYS_madvise, place, bytes, advice));
}
int open(char const* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t const mode = va_arg(more, mode_t);
  va_end(more);
  return FAILS("open", EMFILE) ? -1 : static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
ssize_t read(int file, void* to, size_t bytes) {
  return FAILS("read", EIO) ? -1 : syscall(SYS_read, file, to, bytes);
}
ssize_t pread(int file, void* to, size_t bytes, off_t offset) {
  return FAILS("read", EIO) ? -1 : syscall(SYS_pread64, file, to, bytes, offset);
}
ssize_t write(int file, void const* from, size_t bytes) {
  return FAILS("write", ENOSPC) ? -1 : syscall(SYS_write, file, from, bytes);
}
ssize_t pwrite(int file, void const* from, size_t bytes, off_t offset) {
  return FAILS("write", ENOSPC) ? -1 : syscall(SYS_pwrite64, file, from, bytes, offset);
}
int ftruncate(int file, off_t bytes) noexcept {
  return FAILS("size", EIO) ? -1 : static_cast<int>(syscall(SYS_ftruncate, file, bytes));
}
int fallocate(int file, int mode, off_t offset, off_t bytes) {
  return FAILS("size", ENOSPC) ? -1 : static_cast<int>(syscall(SYS_fallocate, file, mode, offset, bytes));
}
int fstat(int file, struct stat* about) noexcept {
  return FAILS("stat", EIO) ? -1 : fstatat(file, "", about, AT_EMPTY_PATH);
}
int stat(char const* path, struct stat* about) noexcept {
  return FAILS("stat", EACCES) ? -1 : fstatat(AT_FDCWD, path, about, 0);
}
int lstat(char const* path, struct stat* about) noexcept {
  return FAILS("stat", EACCES) ? -1 : fstatat(AT_FDCWD, path, about, AT_SYMLINK_NOFOLLOW);
}
int fcntl(int file, int command, ...) {
  va_list more;
  va_start(more, command);
  long const value = va_arg(more, long);
  va_end(more);
  return FAILS("fcntl", EMFILE) ? -1 : static_cast<int>(syscall(SYS_fcntl, file, command, value));
}
int unlink(char const* path) noexcept {
  return FAILS("unlink", EPERM) ? -1 : static_cast<int>(syscall(SYS_unlink, path));
}
char* getcwd(char* to, size_t bytes) noexcept {
  if (FAILS("cwd", ENOENT)) return nullptr;
  return syscall(SYS_getcwd, to, bytes) > 0 ? to : nullptr;
}
int pthread_key_create(pthread_key_t* key, void (*ended)(void*)) noexcept {
  return FAILS("key", EAGAIN) ? EAGAIN : __pthread_key_create(key, ended);
}
}
