// Ways for a process to end without exit handlers, or to be replaced: _exit, _Exit, quick_exit and exec.
// Called by the program on any thread, also in the child of a vfork, which shares this memory: process.cpp
// recognises it by its pid and touches nothing. In programs without CUDA each is the real function and
// nothing else.
#include <alloca.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <iterator>

#include "shim/process/process.hpp"
#include "shim/symbols/lookup.hpp"
#include "shim/symbols/objects/startup_data.hpp"

namespace process = gpumem::shim::process;

namespace {

enum which : std::size_t {
  exit_now,
  exit_now_iso,
  exit_quick,
  exec,
  exec_path,
  exec_search,
  exec_search_env,
  exec_open
};
GPUMEM_AT_START constinit char names[][12] = {"_exit", "_Exit",  "quick_exit", "execve",
                                              "execv", "execvp", "execvpe",    "fexecve"};
GPUMEM_AT_START constinit std::atomic<void*> functions[std::size(names)] = {};

// Found at load: between fork and exec a process of several threads may not call dlsym.
[[gnu::constructor(102)]] void find_all() {
  for (std::size_t i = 0; i < std::size(names); ++i) {
    functions[i].store(gpumem::shim::next_definition(names[i]), std::memory_order_release);
  }
}

template <typename Function>
Function* next(which name) noexcept {
  if (functions[name].load(std::memory_order_acquire) == nullptr) find_all();  // a constructor before ours
  return reinterpret_cast<Function*>(functions[name].load(std::memory_order_acquire));
}

[[noreturn]] void leave(which name, int code) {
  process::finish(code);
  if (auto* real = next<void(int)>(name)) real(code);
  for (;;) syscall(SYS_exit_group, code);
}

// One element of PATH with the file in it. On the caller's stack, which in a signal handler may be small, it
// takes no more than its name; libc takes as much for the longest element.
[[gnu::noinline]] bool is_in(char const* folder, std::size_t length, char const* file) noexcept {
  std::size_t const file_bytes = strlen(file) + 1;
  auto* const full = static_cast<char*>(alloca(length + 1 + file_bytes));
  memcpy(full, folder, length);
  full[length] = '/';
  memcpy(full + length + 1, file, file_bytes);
  return access(full, X_OK) == 0;
}

// Whether an exec of it can succeed, as far as can be told before: a report is written only then.
bool can_run(char const* file) noexcept {
  if (strchr(file, '/') != nullptr) return access(file, X_OK) == 0;
  if (strnlen(file, NAME_MAX + 1) > NAME_MAX) return false;
  char const* path = getenv("PATH");
  for (char const* at = path != nullptr ? path : "/bin:/usr/bin"; at != nullptr;) {
    char const* const end = strchrnul(at, ':');
    auto const length = static_cast<std::size_t>(end - at);
    if (length < PATH_MAX && is_in(at, length, file)) return true;
    at = *end == ':' ? end + 1 : nullptr;
  }
  return false;
}
bool can_run(int) noexcept {
  return true;
}

// Between a vfork and its exec the page is the parent's: exec_begins sees that, and does nothing.
template <typename File, typename... Arguments>
int replace(which name, File file, Arguments... arguments) {
  auto* real = next<int(File, Arguments...)>(name);
  int const saved = errno;
  bool const announced = process::exec_is_ours() && can_run(file);
  if (announced) process::exec_begins();
  errno = saved;
  int const result = real(file, arguments...);
  if (announced) process::exec_failed();
  return result;
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
  leave(exit_now, code);
}
void _Exit(int code) {
  leave(exit_now_iso, code);
}

// Its handlers run first, the report is one of them: see process.cpp.
void quick_exit(int code) noexcept {
  process::note_exit_code(code);
  if (auto* real = next<void(int)>(exit_quick)) real(code);
  for (;;) syscall(SYS_exit_group, code);
}

int execve(char const* path, char* const* arguments, char* const* environment) noexcept {
  return replace(exec, path, arguments, environment);
}

int execv(char const* path, char* const* arguments) noexcept {
  return replace(exec_path, path, arguments);
}

int execvp(char const* file, char* const* arguments) noexcept {
  return replace(exec_search, file, arguments);
}

int execvpe(char const* file, char* const* arguments, char* const* environment) noexcept {
  return replace(exec_search_env, file, arguments, environment);
}

int fexecve(int descriptor, char* const* arguments, char* const* environment) noexcept {
  return replace(exec_open, descriptor, arguments, environment);
}

int execl(char const* path, char const* first, ...) noexcept {
  GPUMEM_COLLECT(arguments, first);
  va_end(list);
  return replace(exec_path, path, static_cast<char* const*>(arguments));
}

int execlp(char const* file, char const* first, ...) noexcept {
  GPUMEM_COLLECT(arguments, first);
  va_end(list);
  return replace(exec_search, file, static_cast<char* const*>(arguments));
}

int execle(char const* path, char const* first, ...) noexcept {
  GPUMEM_COLLECT(arguments, first);
  auto* const* environment = va_arg(list, char* const*);
  va_end(list);
  return replace(exec, path, static_cast<char* const*>(arguments), environment);
}
}
