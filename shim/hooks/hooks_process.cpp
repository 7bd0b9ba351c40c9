// Ways for a process to end, or to be replaced: exit, quick_exit, _exit, _Exit and exec.
// Called by the program on any thread, also in the child of a vfork, which shares this memory: process.cpp
// recognises it by its pid and touches nothing. In programs without CUDA each is the real function and
// nothing else.
#include <alloca.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <iterator>

#include "core/base/threads/uncancelled.hpp"
#include "shim/process/process.hpp"
#include "shim/symbols/lookup.hpp"
#include "shim/symbols/objects/startup_data.hpp"

namespace process = gpumem::shim::process;

extern "C" {
// Younger than the oldest libc.
int execveat(int, char const*, char* const*, char* const*, int) noexcept;
// Where this library begins, by the linker.
[[gnu::visibility("hidden")]] extern ElfW(Ehdr) const __ehdr_start;
}

namespace {

enum which : std::size_t {
  exit_now,
  exit_now_iso,
  exit_quick,
  exit_usual,
  exec,
  exec_path,
  exec_search,
  exec_search_env,
  exec_open,
  exec_at
};
GPUMEM_AT_START constinit char names[][12] = {"_exit", "_Exit",  "quick_exit", "exit",    "execve",
                                              "execv", "execvp", "execvpe",    "fexecve", "execveat"};
GPUMEM_AT_START constinit std::atomic<void*> functions[std::size(names)] = {};

int execveat_by_number(int folder, char const* path, char* const* arguments, char* const* environment,
                       int flags) noexcept {
  return static_cast<int>(syscall(SYS_execveat, folder, path, arguments, environment, flags));
}

// Found at load: between fork and exec a process of several threads may not call dlsym.
[[gnu::constructor(102)]] void find_all() {
  for (std::size_t i = 0; i < std::size(names); ++i) {
    void* found = gpumem::shim::next_definition(names[i]);
    if (found == nullptr && i == exec_at) found = reinterpret_cast<void*>(&execveat_by_number);
    functions[i].store(found, std::memory_order_release);
  }
}

template <typename Function>
Function* next(which name) noexcept {
  if (functions[name].load(std::memory_order_acquire) == nullptr) find_all();  // a constructor before ours
  return reinterpret_cast<Function*>(functions[name].load(std::memory_order_acquire));
}

[[noreturn]] void leave(which name, int code) {
  if (auto* real = next<void(int)>(name)) real(code);
  for (;;) syscall(SYS_exit_group, code);
}

// Whether an exec of an open file can succeed, by its first bytes: what is neither a program for this machine
// nor begins with the name of its interpreter needs a handler that only the kernel knows of.
process::replacing by_its_beginning(int file) noexcept {
  ElfW(Ehdr) head{};
  ssize_t const length = pread(file, &head, sizeof head, 0);
  if (length < 0) return process::replacing::likely;  // it may be executed and not read
  if (length >= 2 && memcmp(&head, "#!", 2) == 0) return process::replacing::likely;
  auto const& own = __ehdr_start;  // is for this machine
  bool const same = length == sizeof head && memcmp(head.e_ident, own.e_ident, EI_DATA + 1) == 0 &&
                    head.e_machine == own.e_machine;
  return same ? process::replacing::likely : process::replacing::uncertain;
}

// By the rights that an exec is judged by, which may be others than those of the real user.
bool may_run(int folder, char const* path, int flags) noexcept {
  struct stat there {};
  return fstatat(folder, path, &there, flags & AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(there.st_mode) &&
         faccessat(folder, path, X_OK, AT_EACCESS) == 0;
}

process::replacing chance_of(int descriptor) noexcept {
  struct stat there {};
  bool const is_file =
      fstat(descriptor, &there) == 0 && S_ISREG(there.st_mode) && (there.st_mode & 0111) != 0;
  return is_file ? by_its_beginning(descriptor) : process::replacing::no;
}

process::replacing chance_of(int folder, char const* path, int flags) noexcept {
  if (path[0] == '\0' && (flags & AT_EMPTY_PATH) != 0) return chance_of(folder);
  if (!may_run(folder, path, flags)) return process::replacing::no;
  int const file = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file < 0) return process::replacing::likely;
  auto const chance = by_its_beginning(file);
  close(file);
  return chance;
}

// One element of PATH with the file in it; an empty one is the current folder. On the caller's stack, which
// in a signal handler may be small, it takes no more than its name; libc takes as much for the longest
// element.
[[gnu::noinline]] bool is_in(char const* folder, std::size_t length, char const* file) noexcept {
  std::size_t const file_bytes = strlen(file) + 1;
  auto* const full = static_cast<char*>(alloca(length + 1 + file_bytes));
  memcpy(full, folder, length);
  full[length] = '/';
  memcpy(full + length + (length != 0 ? 1 : 0), file, file_bytes);
  return may_run(AT_FDCWD, full, 0);
}

// Of the forms that look for the file, and give what the kernel cannot execute to a shell.
process::replacing chance_by_search(char const* file) noexcept {
  auto const chance = [](bool found) { return found ? process::replacing::likely : process::replacing::no; };
  if (strchr(file, '/') != nullptr) return chance(may_run(AT_FDCWD, file, 0));
  if (file[0] == '\0' || strnlen(file, NAME_MAX + 1) > NAME_MAX) return process::replacing::no;
  char const* path = getenv("PATH");
  for (char const* at = path != nullptr ? path : "/bin:/usr/bin"; at != nullptr;) {
    char const* const end = strchrnul(at, ':');
    auto const length = static_cast<std::size_t>(end - at);
    if (length < PATH_MAX && is_in(at, length, file)) return process::replacing::likely;
    at = *end == ':' ? end + 1 : nullptr;
  }
  return process::replacing::no;
}

// Between a vfork and its exec the page is the parent's: exec_begins sees that, and does nothing.
template <typename Chance, typename... Arguments>
int replace(which name, Chance chance, Arguments... arguments) {
  auto* real = next<int(Arguments...)>(name);
  int const saved = errno;
  auto can = process::replacing::no;
  if (process::exec_is_ours()) {
    gpumem::base::uncancelled const held;  // a look at the file could be cancelled, an exec cannot
    can = chance();
  }
  if (can != process::replacing::no) process::exec_begins(can);
  errno = saved;
  int const result = real(arguments...);
  if (can != process::replacing::no) process::exec_failed();
  return result;
}

int replace_path(which name, char const* path, auto... arguments) {
  return replace(
      name, [path] { return chance_of(AT_FDCWD, path, 0); }, path, arguments...);
}
int replace_found(which name, char const* file, auto... arguments) {
  return replace(
      name, [file] { return chance_by_search(file); }, file, arguments...);
}

// The variadic forms: as many pointers as there are up to the null.
std::size_t count_arguments(va_list arguments) noexcept {
  std::size_t count = 1;
  while (va_arg(arguments, char*) != nullptr) ++count;
  return count;
}

void copy_arguments(char** to, char const* first, va_list arguments) noexcept {
  *to++ = const_cast<char*>(first);
  while ((*to++ = va_arg(arguments, char*)) != nullptr) {
  }
}

}  // namespace

// An array on the caller's stack: no heap between a vfork and its exec.
#define GPUMEM_COLLECT(array, first)                                                       \
  va_list list;                                                                            \
  va_start(list, first);                                                                   \
  auto** array = static_cast<char**>(alloca((count_arguments(list) + 1) * sizeof(char*))); \
  va_end(list);                                                                            \
  va_start(list, first);                                                                   \
  copy_arguments(array, first, list)

extern "C" {

void _exit(int code) {
  process::finish(code);
  leave(exit_now, code);
}
void _Exit(int code) {
  process::finish(code);
  leave(exit_now_iso, code);
}

// The report is one of the handlers of these two: see process.cpp.
void quick_exit(int code) noexcept {
  process::end_begins(code);
  leave(exit_quick, code);
}
void exit(int code) noexcept {
  process::end_begins(code);
  leave(exit_usual, code);
}

int execve(char const* path, char* const* arguments, char* const* environment) noexcept {
  return replace_path(exec, path, arguments, environment);
}

int execv(char const* path, char* const* arguments) noexcept {
  return replace_path(exec_path, path, arguments);
}

int execvp(char const* file, char* const* arguments) noexcept {
  return replace_found(exec_search, file, arguments);
}

int execvpe(char const* file, char* const* arguments, char* const* environment) noexcept {
  return replace_found(exec_search_env, file, arguments, environment);
}

int fexecve(int descriptor, char* const* arguments, char* const* environment) noexcept {
  auto const chance = [descriptor] { return chance_of(descriptor); };
  return replace(exec_open, chance, descriptor, arguments, environment);
}

int execveat(int folder, char const* path, char* const* arguments, char* const* environment,
             int flags) noexcept {
  auto const chance = [folder, path, flags] { return chance_of(folder, path, flags); };
  return replace(exec_at, chance, folder, path, arguments, environment, flags);
}

int execl(char const* path, char const* first, ...) noexcept {
  GPUMEM_COLLECT(arguments, first);
  va_end(list);
  return replace_path(exec_path, path, static_cast<char* const*>(arguments));
}

int execlp(char const* file, char const* first, ...) noexcept {
  GPUMEM_COLLECT(arguments, first);
  va_end(list);
  return replace_found(exec_search, file, static_cast<char* const*>(arguments));
}

int execle(char const* path, char const* first, ...) noexcept {
  GPUMEM_COLLECT(arguments, first);
  auto* const* environment = va_arg(list, char* const*);
  va_end(list);
  return replace_path(exec, path, static_cast<char* const*>(arguments), environment);
}
}
