// Lets library and program load on glibc 2.28 and later, whatever glibc they were built on. What a later
// glibc renamed, moved out of libpthread and libdl, or added, is defined here, hidden, so that the link
// (also of the static C++ library) takes it from here. What cannot be done here goes to the loaded libc,
// found by name in load order, where a sanitizer's or a tool's function comes first as it would natively.
// Any thread, also under the loader's lock: no lock, no heap. tests/integration/packages checks the oldest
// version asked for.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>

#include "shim/symbols/objects/elf_object.hpp"

namespace {

using gpumem::shim::elf_object;

// A function that moved into libc.so, most of them with glibc 2.34. Before that a process without libpthread
// has one thread, and is asked again; with no libdl in it nothing was opened by name.
template <typename Function>
class moved {
 public:
  // `before` is taken where libc.so has none; without it whoever calls does something else, and asks again.
  constexpr explicit moved(char const* name, Function* before = nullptr) : name_(name), before_(before) {}
  Function* get() noexcept {
    Function* const known = known_.load(std::memory_order_relaxed);
    return known != nullptr ? known : find();
  }

 private:
  [[gnu::cold, gnu::noinline]] Function* find() noexcept {
    bool const late = before_ != nullptr && elf_object::listed("libc.so.6").function(name_) == nullptr;
    auto* const found = late ? before_ : reinterpret_cast<Function*>(elf_object::first_function(name_));
    if (found != nullptr) known_.store(found, std::memory_order_relaxed);
    return found;
  }

  char const* name_;
  Function* before_;
  std::atomic<Function*> known_{nullptr};
};

constinit moved<int(pthread_once_t*, void (*)())> libcs_once("pthread_once");
constinit moved<int(pthread_key_t*, void (*)(void*)) noexcept> libcs_key_create("pthread_key_create");
constinit moved<int(pthread_key_t, void const*) noexcept> libcs_setspecific("pthread_setspecific");
constinit moved<void*(pthread_key_t) noexcept> libcs_getspecific("pthread_getspecific");
constinit moved<int(pthread_t*, pthread_attr_t const*, void* (*)(void*), void*) noexcept> libcs_create(
    "pthread_create");
constinit moved<int(pthread_t, char const*) noexcept> libcs_setname("pthread_setname_np");
constinit moved<void*(char const*, int) noexcept> libcs_open("dlopen");
constinit moved<char*() noexcept> libcs_error("dlerror");

// Before glibc 2.33 these were no functions of libc.so. The kernel's structure is libc's on the architectures
// that there are stubs for (lookup_*.S).
int kernels_fstat(int file, struct stat* result) noexcept {
  return static_cast<int>(syscall(SYS_fstat, file, result));
}
int kernels_stat(char const* path, struct stat* result) noexcept {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, result, 0));
}
int kernels_lstat(char const* path, struct stat* result) noexcept {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW));
}
int kernels_fstatat(int folder, char const* path, struct stat* result, int flags) noexcept {
  return static_cast<int>(syscall(SYS_newfstatat, folder, path, result, flags));
}
constinit moved<int(int, struct stat*) noexcept> libcs_fstat("fstat", &kernels_fstat);
constinit moved<int(char const*, struct stat*) noexcept> libcs_stat("stat", &kernels_stat);
constinit moved<int(char const*, struct stat*) noexcept> libcs_lstat("lstat", &kernels_lstat);
constinit moved<int(int, char const*, struct stat*, int) noexcept> libcs_fstatat("fstatat", &kernels_fstatat);

}  // namespace

// What C23 changed, glibc 2.38 and later have by other names, which its headers choose: these are the names
// before.
extern "C" {
long libcs_strtol(char const* text, char** end, int base) noexcept __asm__("strtol");
long long libcs_strtoll(char const* text, char** end, int base) noexcept __asm__("strtoll");
unsigned long libcs_strtoul(char const* text, char** end, int base) noexcept __asm__("strtoul");
unsigned long long libcs_strtoull(char const* text, char** end, int base) noexcept __asm__("strtoull");
int libcs_vsscanf(char const* text, char const* format, va_list to) noexcept __asm__("vsscanf");
}

#pragma GCC visibility push(hidden)
extern "C" {

long __isoc23_strtol(char const* text, char** end, int base) noexcept {
  return libcs_strtol(text, end, base);
}
long long __isoc23_strtoll(char const* text, char** end, int base) noexcept {
  return libcs_strtoll(text, end, base);
}
unsigned long __isoc23_strtoul(char const* text, char** end, int base) noexcept {
  return libcs_strtoul(text, end, base);
}
unsigned long long __isoc23_strtoull(char const* text, char** end, int base) noexcept {
  return libcs_strtoull(text, end, base);
}
int __isoc23_sscanf(char const* text, char const* format, ...) noexcept {
  va_list to;
  va_start(to, format);
  int const found = libcs_vsscanf(text, format, to);
  va_end(to);
  return found;
}

// Some shared_ptr of libstdc++ counts without atomics where this is not zero; nobody would keep it for us.
extern char __libc_single_threaded;
char __libc_single_threaded = 0;

int pthread_once(pthread_once_t* once, void (*begin)()) {
  if (auto* const real = libcs_once.get()) return real(once, begin);
  constexpr pthread_once_t done = 2;  // libpthread's own value, should it be loaded later
  if (*once != done) {
    begin();
    *once = done;
  }
  return 0;
}
int pthread_key_create(pthread_key_t* key, void (*at_end)(void*)) noexcept {
  auto* const real = libcs_key_create.get();
  return real == nullptr ? EAGAIN : real(key, at_end);
}
int __pthread_key_create(pthread_key_t* key, void (*at_end)(void*)) noexcept {
  return pthread_key_create(key, at_end);
}
int pthread_setspecific(pthread_key_t key, void const* value) noexcept {
  auto* const real = libcs_setspecific.get();
  return real == nullptr ? ENOMEM : real(key, value);
}

void* pthread_getspecific(pthread_key_t key) noexcept {
  auto* const real = libcs_getspecific.get();
  return real == nullptr ? nullptr : real(key);
}

// Of a recording alone. libcuda.so brings libpthread along, where there is one.
int pthread_create(pthread_t* made, pthread_attr_t const* with, void* (*run)(void*), void* given) noexcept {
  auto* const real = libcs_create.get();
  return real == nullptr ? EAGAIN : real(made, with, run, given);
}
int pthread_setname_np(pthread_t of, char const* name) noexcept {
  auto* const real = libcs_setname.get();
  return real == nullptr ? ENOSYS : real(of, name);
}

// Locks are taken by every request, so that these do not look whether they know the function: at first they
// are the search. With no libpthread a process has one thread, and libc's own pthread_mutex_lock does nothing
// either.
#define GPUMEM_LOCK(name, type)                                                         \
  static int find_##name(type* lock) noexcept;                                          \
  static constinit std::atomic<int (*)(type*) noexcept> libcs_##name = &find_##name;    \
  int name(type* lock) noexcept {                                                       \
    return libcs_##name.load(std::memory_order_relaxed)(lock);                          \
  }                                                                                     \
  [[gnu::cold]] static int find_##name(type* lock) noexcept {                           \
    using function = int(type*) noexcept;                                               \
    auto* const found = reinterpret_cast<function*>(elf_object::first_function(#name)); \
    if (found == nullptr) return 0;                                                     \
    libcs_##name.store(found, std::memory_order_relaxed);                               \
    return found(lock);                                                                 \
  }
GPUMEM_LOCK(pthread_mutex_trylock, pthread_mutex_t)
GPUMEM_LOCK(pthread_rwlock_rdlock, pthread_rwlock_t)
GPUMEM_LOCK(pthread_rwlock_wrlock, pthread_rwlock_t)
GPUMEM_LOCK(pthread_rwlock_unlock, pthread_rwlock_t)
#undef GPUMEM_LOCK

// The same call of the kernel, for this thread alone.
int pthread_sigmask(int how, sigset_t const* set, sigset_t* before) noexcept {
  int const kept = errno;
  int const result = sigprocmask(how, set, before) == 0 ? 0 : errno;
  errno = kept;
  return result;
}

// libc's dlopen takes its caller for this library, as it did.
void* dlopen(char const* file, int mode) noexcept {
  auto* const real = libcs_open.get();
  return real == nullptr ? nullptr : real(file, mode);
}
char* dlerror() noexcept {
  auto* const real = libcs_error.get();
  return real == nullptr ? nullptr : real();
}

pid_t gettid() noexcept {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

#if __GLIBC_PREREQ(2, 33)  // libc_nonshared.a has them before
int fstat(int file, struct stat* result) noexcept {
  return libcs_fstat.get()(file, result);
}
int fstat64(int file, struct stat64* result) noexcept {  // of the C++ library's files
  return fstat(file, reinterpret_cast<struct stat*>(result));
}
int stat(char const* path, struct stat* result) noexcept {
  return libcs_stat.get()(path, result);
}
int lstat(char const* path, struct stat* result) noexcept {
  return libcs_lstat.get()(path, result);
}
int fstatat(int folder, char const* path, struct stat* result, int flags) noexcept {
  return libcs_fstatat.get()(folder, path, result, flags);
}
#endif

char const* sigabbrev_np(int number) noexcept {
  switch (number) {
#define GPUMEM_SIGNAL(name) \
  case SIG##name:           \
    return #name;
    // clang-format off
    GPUMEM_SIGNAL(HUP) GPUMEM_SIGNAL(INT) GPUMEM_SIGNAL(QUIT) GPUMEM_SIGNAL(ILL)
    GPUMEM_SIGNAL(TRAP) GPUMEM_SIGNAL(ABRT) GPUMEM_SIGNAL(BUS) GPUMEM_SIGNAL(FPE)
    GPUMEM_SIGNAL(KILL) GPUMEM_SIGNAL(USR1) GPUMEM_SIGNAL(SEGV) GPUMEM_SIGNAL(USR2)
    GPUMEM_SIGNAL(PIPE) GPUMEM_SIGNAL(ALRM) GPUMEM_SIGNAL(TERM) GPUMEM_SIGNAL(STKFLT)
    GPUMEM_SIGNAL(CHLD) GPUMEM_SIGNAL(CONT) GPUMEM_SIGNAL(STOP) GPUMEM_SIGNAL(TSTP)
    GPUMEM_SIGNAL(TTIN) GPUMEM_SIGNAL(TTOU) GPUMEM_SIGNAL(URG) GPUMEM_SIGNAL(XCPU)
    GPUMEM_SIGNAL(XFSZ) GPUMEM_SIGNAL(VTALRM) GPUMEM_SIGNAL(PROF) GPUMEM_SIGNAL(WINCH)
    GPUMEM_SIGNAL(POLL) GPUMEM_SIGNAL(PWR) GPUMEM_SIGNAL(SYS)
    // clang-format on
#undef GPUMEM_SIGNAL
                                default : return nullptr;
  }
}
}  // extern "C"
#pragma GCC visibility pop
