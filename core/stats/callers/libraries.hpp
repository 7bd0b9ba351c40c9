// Which loaded library a piece of code is of, as a small number by which memory is counted: who holds it.
// Asked with a return address by every request, any thread, no lock of ours held. The library of a thread's
// last request is found in one comparison, others in a table without a lock; the first call from a library
// walks the loader's list and notes the path in the state page. No heap.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/stats/page/counters.hpp"

namespace gpumem::stats {

// Counts up when a library is about to go, and when it may have gone: what is remembered of addresses is then
// asked again.
inline constinit std::atomic<std::uint64_t> libraries_changed{1};
// Calls that close one. Meanwhile nothing new is remembered: another library may lie at the address of one
// that has just called before those calls are through. The child of a fork in the middle of one asks anew
// each time.
inline constinit std::atomic<std::uint32_t> libraries_closing{0};
inline bool may_remember_libraries() noexcept {
  return libraries_closing.load(std::memory_order_acquire) == 0;
}
// Around a call that closes a library.
class library_closing {
 public:
  library_closing() noexcept {
    libraries_closing.fetch_add(1, std::memory_order_acq_rel);
    libraries_changed.fetch_add(1, std::memory_order_acq_rel);
  }
  ~library_closing() {
    libraries_changed.fetch_add(1, std::memory_order_acq_rel);
    libraries_closing.fetch_sub(1, std::memory_order_acq_rel);
  }
  library_closing(library_closing const&) = delete;
};

using library_id = std::uint32_t;  // less than max_libraries
// Code of no file, and calls from before the state page.
inline constexpr library_id unknown_library = 0;
// Of all libraries that came when the other numbers were taken.
inline constexpr library_id other_libraries = max_libraries - 1;

// The library of this thread's last request; `since`: what libraries_changed was then.
struct library_memo {
  std::uintptr_t low = 0;
  std::uintptr_t bytes = 0;
  std::uint64_t since = 0;
  library_id id = unknown_library;
};
extern constinit thread_local library_memo last_library;

// As library_of, where this thread's memo does not know the code.
library_id find_library(void const* code) noexcept;

[[gnu::always_inline]] inline library_id library_of(void const* code) noexcept {
  library_memo const& last = last_library;
  if (reinterpret_cast<std::uintptr_t>(code) - last.low < last.bytes) [[likely]]
    return last.id;
  return find_library(code);
}

// Before any request: the memory that the first one would make.
void make_library_pages() noexcept;

// Drops the memo if a library may have gone since: another may lie there now. Asked now and then, as requests
// do not look; until then they count for the one before.
void look_again_if_changed() noexcept;

}  // namespace gpumem::stats
