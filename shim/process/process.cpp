// Start, fork and end of the process; see process.hpp. Joins config, route, stats and report. The start
// runs once, on the thread of the first CUDA call, maybe inside a constructor under the loader's lock:
// other threads wait for a bounded time, then their calls go to the driver. Nothing here runs in a process
// without CUDA.
#include "shim/process/process.hpp"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "core/base/clock.hpp"
#include "core/base/environment.hpp"
#include "core/base/log/log.hpp"
#include "core/base/log/standard_error.hpp"
#include "core/base/threads/biased_lock.hpp"
#include "core/base/threads/heap.hpp"
#include "core/base/threads/roomy_stack.hpp"
#include "core/base/threads/sleep.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/base/threads/walk_stack.hpp"
#include "core/driver/question.hpp"
#include "core/driver/table.hpp"
#include "core/phases/phases.hpp"
#include "core/recording/writer/recorder.hpp"
#include "core/report/output/write_reports.hpp"
#include "core/route/first_request.hpp"
#include "core/route/router.hpp"
#include "core/stats/callers/samples.hpp"
#include "core/stats/events/event_log.hpp"
#include "core/stats/page/file/run_mark.hpp"
#include "core/stats/page/state_page.hpp"
#include "shim/observed/memory_pools.hpp"
#include "shim/observed/observed_memory.hpp"
#include "shim/observed/virtual_memory.hpp"
#include "shim/process/left_to_run.hpp"
#include "shim/process/one_by_one.hpp"
#include "shim/process/primary_calls.hpp"
#include "shim/process/report_memory.hpp"
#include "shim/process/settings.hpp"
#include "shim/process/single_writer.hpp"
#include "shim/process/thread_state.hpp"
#include "shim/process/wanted_phases.hpp"
#include "shim/symbols/bypass.hpp"
#include "shim/symbols/hook_names.hpp"
#include "shim/symbols/lookup.hpp"
#include "shim/symbols/objects/elf_object.hpp"
#include "shim/symbols/objects/startup_data.hpp"
#include "shim/symbols/real_symbols.hpp"

namespace gpumem::shim::process {

GPUMEM_AT_START constinit std::atomic<life> state = life::idle;

namespace {

static_assert(all_calls <= stats::max_hooks);

GPUMEM_AT_START constinit std::atomic<int> exit_code = 0;
GPUMEM_AT_START constinit base::file_identity stderr_at_start{}, stdout_at_start{};
GPUMEM_AT_START constinit pid_t loaded_in = 0;
constinit single_writer reporter;

// The page, if it is this process's: the child of a vfork has the parent's memory, and must leave it alone.
// Inline: a process without CUDA then leaves without touching a further page of code.
[[gnu::always_inline]] inline stats::page* own_page() noexcept {
  if (state.load(std::memory_order_acquire) != life::running) return nullptr;
  stats::page* page = stats::current_page();
  return page != nullptr && page->fixed.head.pid == getpid() ? page : nullptr;
}

// CUDA does not survive a fork. The child starts anew if it ever gets a driver of its own.
void in_forked_child() noexcept {
  base::let_go_of_log_in_child();
  if (state.load(std::memory_order_relaxed) == life::off) return;
  recording::forget_in_child();
  stats::event_log::forget_in_child();
  stats::drop_in_child();
  stats::forget_sampled_sites();
  if (state.load(std::memory_order_relaxed) == life::running) route::forked_child();
  primary_calls::reset_in_child();
  one_by_one::reset_in_child();
  memory_pools::instance().reset_in_child();
  observed_memory::instance().reset_in_child();
  virtual_memory::instance().reset_in_child();
  this_thread = {};
  reporter.reset_in_child();
  state.store(life::idle, std::memory_order_release);
}

void at_exit(int code, void*) noexcept {
  exit_code.store(code, std::memory_order_relaxed);
}
void at_quick_exit() noexcept {
  finish(exit_code.load(std::memory_order_relaxed));
}

void watch_process() noexcept {
  static constinit std::atomic_flag watching;
  if (watching.test_and_set()) return;  // a forked child inherits the handlers
  pthread_atfork(nullptr, nullptr, &in_forked_child);
  on_exit(&at_exit, nullptr);
  for (int i = 0; i < single_writer::let_in; ++i) ::at_quick_exit(&at_quick_exit);
}

// Made before libc's own, which runs the destructors of libraries: the last of all, on each thread that is in
// exit. Who came through while another one writes would end that one too. No more are made than threads are
// let in: beyond its first 32 handlers, libc may read one that another thread has let go.
void last_of_handlers(int code, void*) noexcept {
  if (own_page() != nullptr && !reporter.is_done() && is_preloaded()) finish(code);
}

[[gnu::constructor(103)]] void prepare_at_load(int, char**, char** variables) {
  base::note_environment(variables);
  stdout_at_start = base::file_identity::of(STDOUT_FILENO);
  stderr_at_start = base::file_identity::of(STDERR_FILENO);
  loaded_in = getpid();
  base::register_barrier();
  for (int i = 0; i <= single_writer::let_in; ++i) on_exit(&last_of_handlers, nullptr);
}

// Where messages go: stderr, or nowhere.
int descriptor_for_messages() noexcept {
  return base::is_for_messages(stderr_at_start) ? STDERR_FILENO : -1;
}

char const* cudart_in_use() noexcept {
  unsigned const started = runtimes_started.load(std::memory_order_relaxed);
  if (!elf_object::with_soname("libcudart.so.")) return started > 0 ? "static" : "none";
  return started > 1 ? "both" : "shared";
}

bool begin() noexcept {
  watch_process();
  if (settings::is_secure() || is_second_copy() || !settings::load(descriptor_for_messages())) return false;
  stats::remove_mark(settings::run_id());
  if (char const* missing = real_symbols::missing_requirement()) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "this driver has no %s; all calls go to it untouched: gpumem needs a newer driver",
                  missing);
    base::log_line(base::log_level::warn, text);
    return false;
  }
  stats::hook_description hooks[all_calls];
  std::string_view calls[all_calls];
  for (std::size_t i = 0; i < all_calls; ++i) {
    calls[i] = symbols[i];
    hooks[i] = {symbols[i], routes[i]};
  }
  stats::open_page({.hooks = hooks, .tool_version = settings::tool_version(), .run_id = settings::run_id()});
  settings::open_log();
  int version = 0;
  driver::real.cuDriverGetVersion(&version);
  stats::describe_driver(version, cudart_in_use());
  settings::describe();
  settings::start_recording();
  phases::page_opened();
  if (settings::wants_phases()) ask_for_ranges();
  settings::start_router(calls);
  settings::say_what_started(version, cudart_in_use());
  CUcontext context = nullptr;
  if (driver::asked(driver::real.cuCtxGetCurrent, &context) == CUDA_SUCCESS && context != nullptr)
    route::prepare_first_request_in(context);
  return true;
}

// True if this process's driver is initialised, so that it is really CUDA that is about to happen.
bool driver_is_up() noexcept {
  if (!real_symbols::adopt() || driver::real.cuCtxGetCurrent == nullptr) return false;
  CUcontext context = nullptr;
  return driver::asked(driver::real.cuCtxGetCurrent, &context) == CUDA_SUCCESS;
}

// Waiting without end would be a deadlock if this thread holds the loader's lock and the starting one needs
// it.
bool wait_for_start() noexcept {
  for (int i = 0; i < 20'000 && state.load(std::memory_order_acquire) == life::starting; ++i)
    base::sleep_for(50'000);
  return state.load(std::memory_order_acquire) == life::running;
}

// With it the unwinder takes no lock of the loader's; see older_unwinder.cpp.
void look_for_dl_find_object() noexcept {
#if __GLIBC_PREREQ(2, 35)
  base::walks_take_no_lock = elf_object::listed("libc.so.6").function("_dl_find_object") != nullptr;
#endif
}

// libc's own, whatever a sanitizer in the program has put in front of them.
void find_libcs_stack_functions() noexcept {
  auto const libc = elf_object::listed("libc.so.6");
  base::stack_functions const found{reinterpret_cast<decltype(&::getcontext)>(libc.function("getcontext")),
                                    reinterpret_cast<decltype(&::makecontext)>(libc.function("makecontext")),
                                    reinterpret_cast<decltype(&::swapcontext)>(libc.function("swapcontext"))};
  if (found.get != nullptr && found.make != nullptr && found.swap != nullptr) base::change_stack = found;
}

void look_for_libcs_heap() noexcept {
  auto const libc = elf_object::listed("libc.so.6");
  base::heap::is_libcs.store(libc.function("malloc") == reinterpret_cast<void*>(&::malloc) &&
                                 libc.function("free") == reinterpret_cast<void*>(&::free),
                             std::memory_order_relaxed);
}

// Of others, a wait that must end would be as long as they like.
void find_libcs_clock() noexcept {
  auto const found = elf_object::listed("libc.so.6").function("clock_gettime");
  if (found != nullptr) base::ask_clock.store(reinterpret_cast<decltype(&::clock_gettime)>(found));
}

}  // namespace

bool start() noexcept {
  if (this_thread.is_inside() || !driver_is_up()) return false;
  life expected = life::idle;
  base::uncancelled const held;
  if (!state.compare_exchange_strong(expected, life::starting)) return wait_for_start();
  this_thread.here = thread_state::hooks::at_work;
  bool started = false;
  find_libcs_stack_functions();
  find_libcs_clock();
  look_for_libcs_heap();
  look_for_dl_find_object();
  base::with_room([&]() noexcept { started = begin(); });
  this_thread.here =
      thread_state::hooks::may_work;  // the first thread that calls CUDA is no thread of the driver's
  state.store(started ? life::running : life::off, std::memory_order_release);
  return started;
}

// A signal handler may end the process in the middle of a hook, with locks of ours held: then only the end is
// written, and the page stays for `gpumem report`.
void write_report(stats::page* page, stats::end_kind kind, int code, bool left = false) noexcept {
  base::uncancelled const held;
  int const out = base::is_for_messages(stdout_at_start, STDOUT_FILENO) ? STDOUT_FILENO : -1;
  if (!this_thread.is_inside() && !left)
    base::with_room([&left, out]() noexcept { left = is_left_to_run(out); });
  stats::close_page({.kind = kind,
                     .code = code,
                     .clean = left ? stats::report_is_left : stats::report_is_written,
                     .duration_ns = stats::elapsed_ns()});
  if (this_thread.is_inside()) return;
  base::with_room([page, kind, left, out]() noexcept {
    stats::event_log::finish_all();
    if (kind == stats::end_kind::exit) {
      recording::finish();
    } else {
      recording::flush();
    }
    report_memory const own_heap;
    stats::describe_passed_by(find_bypasses().text);
    route::measure();
    if (left) return;
    report::write_options options = settings::report_options();
    options.stdout_fd = out;
    if (!report::write_reports(page, options)) return;
    if (kind == stats::end_kind::exec) {
      stats::set_page_file_aside();
    } else {
      stats::remove_page_file();
    }
  });
}

void end_begins(int code) noexcept {
  if (own_page() != nullptr && !this_thread.is_inside() && !this_thread.ends) {
    this_thread.ends = true;
    reporter.enter();
  }
  exit_code.store(code, std::memory_order_relaxed);
}

void finish(int code) noexcept {
  stats::page* page = own_page();
  // In a signal handler in the middle of an exec the turn is its own.
  if (page == nullptr || !(reporter.take_turn(!this_thread.is_inside()) || this_thread.execs)) return;
  write_report(page, stats::end_kind::exit, code);
  reporter.done();
}

bool exec_is_ours() noexcept {
  return own_page() != nullptr;
}

void exec_begins(replacing chance) noexcept {
  if (!reporter.take_turn(!this_thread.is_inside())) return;
  this_thread.execs = true;
  write_report(own_page(), stats::end_kind::exec, 0, chance == replacing::uncertain);
}

void exec_failed() noexcept {
  if (!this_thread.execs) return;
  this_thread.execs = false;
  int const saved = errno;
  base::uncancelled const held;
  if (own_page() != nullptr) base::with_room([]() noexcept { stats::reopen_page(); });
  reporter.give_up();
  errno = saved;
}

namespace {

// There was CUDA in this process, and not one call of it came here. A forked child has its parent's objects,
// which say nothing of calls of its own: the parent speaks of them.
void name_bypasses() noexcept {
  bypass_list const found = find_bypasses();
  if (found.text[0] == 0 || settings::is_silent() || !base::is_for_messages(stderr_at_start)) return;
  if (getpid() != loaded_in || is_second_copy()) return;
  if (!is_preloaded()) return;  // NVTX has opened it, in a process that was to go without
  char text[400];
  std::snprintf(text, sizeof text, "CUDA was called past gpumem, and not counted, by %s", found.text);
  base::log_line(base::log_level::warn, text);
}

// After the program's own exit handlers and static destructors: what they free is still counted.
[[gnu::destructor(101)]] void at_unload() {
  // What the program still has in its buffer is before our report; exit would write it in a moment. Not where
  // another thread is at it.
  if (own_page() != nullptr) {
    if (settings::writes_to_stdout() && ::ftrylockfile(stdout) == 0) {
      ::fflush_unlocked(stdout);
      ::funlockfile(stdout);
    }
    finish(exit_code.load(std::memory_order_relaxed));
  }
  if (state.load(std::memory_order_relaxed) == life::idle) name_bypasses();
}
}  // namespace

}  // namespace gpumem::shim::process
