// The life of the process as this library sees it: silent until CUDA is used, started at the first CUDA
// call that finds an initialised driver, inactive in a forked child until that uses CUDA itself, one report
// at the end. Called from every hook (ensure_running) and from exit, fork and exec, on any thread. Makes no
// CUDA call and frees nothing at the end.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpumem::shim::process {

enum class life : std::uint32_t { idle, starting, running, off };

extern constinit std::atomic<life> state;

// Tries to start; true when hooks may work. Only for ensure_running().
bool start() noexcept;

inline bool ensure_running() noexcept {
  life const now = state.load(std::memory_order_acquire);
  if (now == life::running) [[likely]]
    return true;
  return now != life::off && start();
}

// Whether it has started; starts nothing.
inline bool is_running() noexcept {
  return state.load(std::memory_order_acquire) == life::running;
}

// Writes the report, once.
[[gnu::cold]] void finish(int code) noexcept;
// This thread is about to run exit handlers; finish() is one of them, and is told no code. Where enough
// others are at it, it returns when the report is written.
[[gnu::cold]] void end_begins(int code) noexcept;
// This image is about to be replaced: its report is written now. Where that is uncertain it is only left in
// the page, for `gpumem run` and `gpumem report`. When the exec failed, resume; the report at the end then
// counts all.
bool exec_is_ours() noexcept;  // false: nothing was counted here, or it is a vfork's child
enum class replacing { no, uncertain, likely };
// Before the real call, and after it came back.
void exec_begins(replacing chance) noexcept;
void exec_failed() noexcept;

}  // namespace gpumem::shim::process
