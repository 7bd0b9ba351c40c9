// A preload library that fails chosen calls which libgpumem.so makes of libc, and no other's. Loaded before
// it by faults.py; counts the calls of one kind, on any thread.
//   INJECT_KIND=malloc  malloc (calloc, realloc, aligned_alloc), mmap, munmap, mprotect, madvise, open, read,
//   write, size,
//                       stat, fcntl, unlink, key, cwd, folder, limit, signals, peek, leave, thread, terminal,
//                       futex, barrier: the functions with that word below
//   INJECT_AT=N         the Nth call fails; INJECT_ON=1: all from there on
//   INJECT_COUNT=FILE   of 8 bytes: they are the number of calls
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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
int __cxa_at_quick_exit(void (*)(void*), void*);
int __register_atfork(void (*)(), void (*)(), void (*)(), void*);
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

// libc's own of that name.
template <typename Function>
Function* next(Function*, char const* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
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
int munmap(void* place, size_t bytes) noexcept {
  return FAILS("munmap", ENOMEM) ? -1 : static_cast<int>(syscall(SYS_munmap, place, bytes));
}
int mprotect(void* place, size_t bytes, int access) noexcept {
  return FAILS("mprotect", ENOMEM) ? -1 : static_cast<int>(syscall(SYS_mprotect, place, bytes, access));
}
int openat(int folder, char const* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t const mode = va_arg(more, mode_t);
  va_end(more);
  return FAILS("open", ENFILE) ? -1 : static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}
int mkdir(char const* path, mode_t mode) noexcept {
  return FAILS("folder", EROFS) ? -1 : static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int access(char const* path, int wanted) noexcept {
  return FAILS("folder", EACCES) ? -1 : static_cast<int>(syscall(SYS_faccessat, AT_FDCWD, path, wanted));
}
ssize_t readlink(char const* path, char* to, size_t bytes) noexcept {
  return FAILS("folder", EACCES) ? -1 : syscall(SYS_readlinkat, AT_FDCWD, path, to, bytes);
}
int getrlimit(__rlimit_resource_t which, struct rlimit* result) noexcept {
  return FAILS("limit", EPERM) ? -1 : static_cast<int>(syscall(SYS_prlimit64, 0, which, nullptr, result));
}
int prctl(int what, ...) noexcept {
  va_list more;
  va_start(more, what);
  unsigned long words[4];
  for (unsigned long& each : words) each = va_arg(more, unsigned long);
  va_end(more);
  return FAILS("limit", EINVAL)
             ? -1
             : static_cast<int>(syscall(SYS_prctl, what, words[0], words[1], words[2], words[3]));
}
int sigaltstack(stack_t const* now, stack_t* before) noexcept {
  return FAILS("signals", ENOMEM) ? -1 : static_cast<int>(syscall(SYS_sigaltstack, now, before));
}
int sigprocmask(int how, sigset_t const* now, sigset_t* before) noexcept {
  constexpr size_t kernels = 8;  // bytes
  return FAILS("signals", EINVAL) ? -1
                                  : static_cast<int>(syscall(SYS_rt_sigprocmask, how, now, before, kernels));
}
ssize_t process_vm_readv(pid_t of, struct iovec const* here, unsigned long ours, struct iovec const* there,
                         unsigned long theirs, unsigned long flags) noexcept {
  return FAILS("peek", EPERM) ? -1 : syscall(SYS_process_vm_readv, of, here, ours, there, theirs, flags);
}
int poll(struct pollfd* files, nfds_t count, int milliseconds) {
  return FAILS("terminal", EINTR) ? -1 : static_cast<int>(syscall(SYS_poll, files, count, milliseconds));
}
int ioctl(int file, unsigned long request, ...) noexcept {
  va_list more;
  va_start(more, request);
  void* const argument = va_arg(more, void*);
  va_end(more);
  return FAILS("terminal", ENOTTY) ? -1 : static_cast<int>(syscall(SYS_ioctl, file, request, argument));
}
off_t lseek(int file, off_t offset, int from) noexcept {
  return FAILS("terminal", ESPIPE) ? -1 : syscall(SYS_lseek, file, offset, from);
}
int pthread_create(pthread_t* made, pthread_attr_t const* as, void* (*run)(void*), void* with) noexcept {
  return FAILS("thread", EAGAIN) ? EAGAIN : next(pthread_create, "pthread_create")(made, as, run, with);
}
int on_exit(void (*run)(int, void*), void* with) noexcept {
  return FAILS("leave", ENOMEM) ? -1 : next(on_exit, "on_exit")(run, with);
}
int __cxa_at_quick_exit(void (*run)(void*), void* with) {
  return FAILS("leave", ENOMEM) ? -1 : next(__cxa_at_quick_exit, "__cxa_at_quick_exit")(run, with);
}
int __register_atfork(void (*before)(), void (*in_parent)(), void (*in_child)(), void* library) {
  return FAILS("leave", ENOMEM)
             ? ENOMEM
             : next(__register_atfork, "__register_atfork")(before, in_parent, in_child, library);
}
// Those that libc has no function for, and waits, which may end for nothing.
long syscall(long number, ...) noexcept {
  va_list more;
  va_start(more, number);
  long words[6];
  for (long& each : words) each = va_arg(more, long);
  va_end(more);
  bool const waits = number == SYS_futex && (words[1] & FUTEX_CMD_MASK) == FUTEX_WAIT;
  if (waits && FAILS("futex", EINTR)) return -1;
  if (number == SYS_membarrier && FAILS("barrier", EPERM)) return -1;
  return next(syscall, "syscall")(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
}
