// See roomy_stack.hpp.
#include "core/base/threads/roomy_stack.hpp"

#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace gpumem::base {
namespace {

constexpr std::size_t size = 512 << 10;  // addresses; pages come when touched
constexpr std::size_t most = 8 << 20;    // of the first stack: nothing else is so near to it

// At the low end of the new stack: it is too large for a small one.
struct job {
  void (*work)(void*) noexcept;
  void* argument;
  ucontext_t back, there;
};

void enter(unsigned high, unsigned low) {
  auto* const what = reinterpret_cast<job*>(std::uintptr_t{high} << 32 | low);
  what->work(what->argument);
}

// On the process's first stack, and not near its end. A program may run its first thread on other stacks too
// (ucontext, coroutines); what the kernel put above the first one's frames says where that is. A handler's
// own stack may lie in it.
bool has_room_here() noexcept {
  stack_t handlers{};
  if (::sigaltstack(nullptr, &handlers) != 0 || (handlers.ss_flags & SS_ONSTACK) != 0) return false;
  rlimit limit{};
  auto const here = reinterpret_cast<std::uintptr_t>(&limit);
  auto const top = static_cast<std::uintptr_t>(::getauxval(AT_RANDOM));
  if (here >= top || ::getrlimit(RLIMIT_STACK, &limit) != 0) return false;
  return top - here + size <= std::min<rlim_t>(limit.rlim_cur, most);
}

}  // namespace

void with_room(void (*work)(void*) noexcept, void* argument) noexcept {
  int const saved = errno;
  void* const memory = has_room_here()
                           ? MAP_FAILED
                           : ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  errno = saved;
  if (memory == MAP_FAILED) return work(argument);
  auto* const what = static_cast<job*>(memory);
  what->work = work;
  what->argument = argument;
  if (change_stack.get(&what->there) != 0) {
    work(argument);
  } else {
    what->there.uc_stack.ss_sp = static_cast<char*>(memory) + sizeof(job);
    what->there.uc_stack.ss_size = size - sizeof(job);
    what->there.uc_link = &what->back;
    auto const place = reinterpret_cast<std::uintptr_t>(what);
    change_stack.make(&what->there, reinterpret_cast<void (*)()>(&enter), 2,
                      static_cast<unsigned>(place >> 32), static_cast<unsigned>(place));
    change_stack.swap(&what->back, &what->there);
  }
  int const last = errno;
  ::munmap(memory, size);
  errno = last;
}

}  // namespace gpumem::base
