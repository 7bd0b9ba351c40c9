// See recorder.hpp.
#include "core/recording/writer/recorder.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "core/base/clock.hpp"
#include "core/base/files/file_pattern.hpp"
#include "core/base/local_time.hpp"
#include "core/base/log/log.hpp"
#include "core/base/threads/sleep.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/recording/ring_merge.hpp"
#include "core/recording/stamp.hpp"
#include "core/recording/writer/record.hpp"
#include "core/recording/writer/recorder_state.hpp"
#include "core/stats/page/describe_process.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::recording {
namespace {

constexpr std::uint64_t longest_sleep_ns = 500'000'000;
constexpr std::uint64_t enough = 4096;  // events, for a frame
constexpr std::uint64_t most_at_once =
    16384;  // before the rings hear of it; for a frame, while the disk is behind
constexpr std::uint64_t few_frames = 4;
constexpr std::uint64_t patience_ns = 1'000'000'000;
constexpr std::uint64_t busy_patience_ns = 200'000'000;  // less than threads wait for room
// A store is seen by others long before so many ticks of any clock are over.
constexpr std::uint64_t store_ticks = 500'000;

template <std::size_t size>
void copy_text(char (&to)[size], std::string_view text) noexcept {
  std::size_t const length = std::min(size - 1, text.size());
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

std::uint64_t waiting_events(recorder_state& s) noexcept {
  area& shared = *s.area.get();
  std::uint64_t waiting = 0;
  for (std::size_t i = 0, used = shared.head.rings_used.load(std::memory_order_acquire); i < used; ++i) {
    waiting += shared.rings[i].head.load(std::memory_order_relaxed) -
               shared.rings[i].tail.load(std::memory_order_relaxed);
  }
  return waiting;
}

// True: all events with earlier stamps than now are published. `passes`: threads that do not get on in so
// many tries are passed over from now on, until they do.
bool wait_for_busy(recorder_state& s, int tries, bool passes) noexcept {
  area& shared = *s.area.get();
  bool all = true;
  for (std::size_t i = 0, used = shared.head.rings_used.load(std::memory_order_acquire); i < used; ++i) {
    ring_state& ring = shared.rings[i];
    std::uint64_t const head = ring.head.load(std::memory_order_acquire);
    if (s.passed_over[i] == head + 1) continue;
    int left = tries;
    while (ring.busy.load(std::memory_order_acquire) != 0 &&
           ring.head.load(std::memory_order_acquire) == head) {
      if (--left == 0) break;
      if (left % 1024 == 0) base::sleep_for(100'000);
    }
    if (left == 0 && passes) s.passed_over[i] = head + 1;
    all = all && left != 0;
  }
  return all;
}

// A thread may have been cancelled between its stamp and its event, or be stopped there: the others are not
// to run out of room for it. What it says later stands where it is said.
bool is_held_up(recorder_state& s) noexcept {
  if (wait_for_busy(s, 1024, false)) {
    s.held_up_since_ns = 0;
    return false;
  }
  std::uint64_t const now = base::now_ns();
  if (s.held_up_since_ns == 0) s.held_up_since_ns = now;
  if (now - s.held_up_since_ns < busy_patience_ns) return true;
  s.held_up_since_ns = 0;
  wait_for_busy(s, 1024, true);
  return false;
}

// What is in no frame stays, for who completes the file.
void take_out(recorder_state& s, ring_merge& merge) noexcept {
  if (s.encode.failed()) return;
  merge.done();
  s.room.ring_sleeper();
  s.progress.fetch_add(1, std::memory_order_relaxed);
}

// Puts events into frames. `all`: up to this moment, whatever comes.
void merge_rings(recorder_state& s, bool all) noexcept {
  std::uint64_t horizon = stamp_now(s.monotonic);
  if (all) {
    while (stamp_now(s.monotonic) < horizon + store_ticks) base::sleep_for(50'000);
    wait_for_busy(s, 1024 * 2048, true);
  } else {
    horizon -= std::min(horizon, store_ticks);
    if (is_held_up(s)) return base::sleep_for(100'000);
  }
  ring_merge merge(*s.area.get());
  merge.begin(horizon);
  std::uint64_t count = 0, last = 0;
  while (event const* const one = merge.peek()) {
    if (count >= most_at_once && one->stamp > last) {
      s.encode.commit(one->stamp);
      take_out(s, merge);
      count = 0;
    }
    last = one->stamp;
    std::uint64_t const stopped = s.stopped_at.load(std::memory_order_acquire);
    if (stopped == 0 || last < stopped) s.encode.add(*one);
    merge.pop();
    ++count;
  }
  s.encode.commit(horizon);
  take_out(s, merge);
}

bool write_head(recorder_state& s, end_state state) noexcept {
  s.head.state = state;
  s.head.events = s.encode.events();
  if (state == end_state::complete || state == end_state::stopped) s.head.rings[0] = '\0';
  int const descriptor = s.file.descriptor();
  return descriptor >= 0 && write_at(descriptor, &s.head, sizeof s.head, 0);
}

// What is there is all there will be, for now.
void write_end(recorder_state& s) noexcept {
  char const* const stopped = s.stop_reason.load(std::memory_order_acquire);
  s.encode.finish(stamp_now(s.monotonic));
  while (!s.frames.empty() && s.frames.error() == 0) {
    s.progress.store(s.frames.written() + s.encode.events(), std::memory_order_relaxed);
    base::sleep_for(200'000);
  }
  if (stopped != nullptr) copy_text(s.head.reason, stopped);
  bool const good = stopped == nullptr && s.frames.error() == 0;
  bool const written = write_head(s, good ? end_state::complete : end_state::stopped);
  if (written || s.frames.error() == ENOENT) s.area.remove_file();
}

void say_stopped(recorder_state& s) noexcept {
  char const* const reason = s.stop_reason.load(std::memory_order_acquire);
  char text[1400];
  std::snprintf(text, sizeof text, "the recording %s ends here: %s; the program goes on without it",
                s.file.path(), reason);
  base::log_line(base::log_level::warn, text);
  stats::note_recording_stopped(reason);
}

// What the disk or the encoder refused.
bool is_well(recorder_state& s) noexcept {
  if (int const error = s.frames.error(); error != 0)
    stop_recording(s, error == ENOENT                      ? "its file is gone"
                      : error == EFBIG                     ? "the limit on file sizes (ulimit -f) is reached"
                      : error == ENOSPC || error == EDQUOT ? "its disk is full"
                                                           : std::strerror(error));
  else if (s.encode.failed())
    stop_recording(s, s.encode.failure());
  return s.stop_reason.load(std::memory_order_acquire) == nullptr;
}

void* run_recorder(void* given) {
  auto& s = *static_cast<recorder_state*>(given);
  std::uint64_t merged_at = base::now_ns();
  while (is_well(s)) {
    auto const since = s.work.rung();
    std::uint32_t const wanted = s.flushes_wanted.load(std::memory_order_acquire);
    if (wanted != s.flushes_done.load(std::memory_order_relaxed)) {
      merge_rings(s, true);
      write_end(s);
      if (!is_well(s)) break;
      s.flushes_done.store(wanted, std::memory_order_release);
      s.answers.ring();
      continue;
    }
    std::uint64_t const waiting = waiting_events(s), now = base::now_ns();
    bool const is_behind = s.frames.waiting() > few_frames;  // then each place is to hold much
    if (waiting >= (is_behind ? most_at_once : enough) ||
        (waiting != 0 && now - merged_at >= longest_sleep_ns)) {
      if (s.head.state == end_state::complete) write_head(s, end_state::open);  // behind an exec that failed
      merge_rings(s, false);
      merged_at = now;
    } else {
      s.work.wait(since, longest_sleep_ns);
    }
  }
  say_stopped(s);
  if (s.frames.error() == 0 && !s.encode.failed()) merge_rings(s, true);
  write_end(s);
  s.flushes_done.store(s.flushes_wanted.load(std::memory_order_acquire), std::memory_order_release);
  s.finishing.store(true, std::memory_order_release);
  s.answers.ring();
  return nullptr;
}

void* run_spool(void* given) {
  auto& s = *static_cast<recorder_state*>(given);
  s.frames.run();
  return nullptr;
}

// Of the program's own signals they get none.
bool make_thread(void* (*run)(void*), recorder_state& s) noexcept {
  sigset_t all, before;
  sigfillset(&all);
  pthread_t made;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int const code = pthread_create(&made, &attributes, run, &s);
  if (code == 0) pthread_setname_np(made, "gpumem-record");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return code == 0;
}

void describe(recorder_state& s, start_options const& options) noexcept {
  std::memcpy(s.head.magic, file_magic, sizeof file_magic);
  s.head.version = format_version;
  s.head.head_bytes = sizeof(file_head);
  s.head.pid = ::getpid();
  s.head.start_ticks = stats::start_ticks_of(::getpid());
  s.head.pid_namespace = stats::pid_namespace();
  s.head.max_bytes = options.max_bytes;
  s.head.utc_offset_ns = base::utc_offset_ns();
  s.head.began = clock_now(s.monotonic);
  if (stats::page const* const page = stats::current_page(); page != nullptr) {
    stats::page_header const& known = page->fixed.head;
    copy_text(s.head.program, known.argv_bytes != 0 ? known.argv : known.exe);
  }
  copy_text(s.head.tool_version, options.tool_version);
  copy_text(s.head.rings, s.area.path());
}

// The head is written on a thread of the program, which the signal of a limit would end.
bool may_hold_a_head() noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= file_page;
}

std::string open_file(recorder_state& s, std::string_view pattern) {
  if (!may_hold_a_head()) return "the limit on file sizes (ulimit -f) is below 4 KiB";
  base::expansion const name = base::expand_pattern(pattern, stats::values_of_this_process());
  if (!name.error.empty()) return name.error;
  base::created_file const made = base::create_without_overwriting(name.text, {.out = -1, .error = -1});
  if (!made.error.empty()) return made.error;
  struct stat there {};
  if (::fstat(made.descriptor, &there) != 0 || !S_ISREG(there.st_mode)) {
    ::close(made.descriptor);
    return made.path + " is no plain file";
  }
  if (s.file.keep(made.descriptor, made.path.c_str(), O_WRONLY)) return "";
  return "cannot use " + made.path + ": " + std::strerror(errno);
}

std::string try_start(recorder_state& s, start_options const& options) {
  s.monotonic = !has_common_counter();
  std::string error = open_file(s, options.file);
  if (!error.empty()) return error;
  char const* reason = "";
  area* const shared = s.area.open(s.monotonic, reason);
  if (shared == nullptr) return "no room for its buffers";
  shared->head.recording_device = s.file.device();
  shared->head.recording_inode = s.file.inode();
  if (*reason != '\0')
    base::log_line(base::log_level::warn,
                   "the recording loses its last half second if the program is killed: its buffers are in "
                   "plain memory (" +
                       std::string(reason) + ")");
  describe(s, options);
  if (!write_head(s, end_state::open))
    return std::string("cannot write ") + s.file.path() + ": " + std::strerror(errno);
  if (!make_thread(run_spool, s)) return "no thread for it";
  if (!make_thread(run_recorder, s)) {
    s.frames.stop();
    return "no thread for it";
  }
  return "";
}

// While it goes on. False: it does not.
bool wait_for_flush(recorder_state& s, std::uint32_t wanted) noexcept {
  std::uint64_t seen = ~std::uint64_t{0}, since_ns = base::now_ns();
  for (;;) {
    auto const since = s.answers.rung();
    if (s.flushes_done.load(std::memory_order_acquire) >= wanted ||
        s.finishing.load(std::memory_order_acquire))
      return true;
    std::uint64_t const now = s.progress.load(std::memory_order_relaxed);
    if (now != seen) {
      seen = now;
      since_ns = base::now_ns();
    } else if (base::now_ns() - since_ns > patience_ns) {
      return false;
    }
    s.answers.wait(since, 20'000'000);
  }
}

// True: all of it is in the file, or it was said why not.
bool bring_to_file(recorder_state& s) noexcept {
  std::uint32_t const wanted = s.flushes_wanted.fetch_add(1, std::memory_order_acq_rel) + 1;
  s.work.ring();
  return wait_for_flush(s, wanted) || s.stop_reason.load(std::memory_order_acquire) != nullptr;
}

void say_unfinished(recorder_state& s) noexcept {
  bool const is_kept = s.area.path()[0] != '\0';
  char const* const reason =
      is_kept ? "its disk had not taken all of it at the end; gpumem export puts the rest into it"
              : "its disk had not taken all of it at the end, and its buffers were in plain memory";
  char text[1400];
  std::snprintf(text, sizeof text, "the recording %s: %s", s.file.path(), reason);
  base::log_line(base::log_level::warn, text);
  stats::note_recording_stopped(reason);
}

}  // namespace

void stop_recording(recorder_state& of, char const* reason) noexcept {
  char const* none = nullptr;
  if (!of.stop_reason.compare_exchange_strong(none, reason, std::memory_order_acq_rel)) return;
  active.store(false, std::memory_order_release);
  of.stopped_at.store(stamp_now(of.monotonic), std::memory_order_release);
  of.work.ring();
}

bool start(start_options const& options) noexcept {
  base::uncancelled const held;
  int const saved = errno;
  auto* const made = new (std::nothrow) recorder_state(options.max_bytes);
  std::string error = "no host memory";
  try {
    if (made != nullptr) error = try_start(*made, options);
    if (error.empty()) {
      stats::describe_recording(made->file.path());
      recorder.store(made, std::memory_order_release);
      active.store(true, std::memory_order_release);
    } else {
      base::log_line(base::log_level::warn, "no recording: " + error);
      stats::note_recording_stopped(error);
    }
  } catch (...) {
    base::log_line(base::log_level::warn, "no recording: out of host memory");
  }
  errno = saved;
  return is_on();
}

void flush() noexcept {
  recorder_state* const s = recorder.load(std::memory_order_acquire);
  if (s == nullptr) return;
  base::uncancelled const held;
  int const saved = errno;
  bring_to_file(*s);
  errno = saved;
}

void finish() noexcept {
  active.store(false, std::memory_order_release);
  recorder_state* const s = recorder.load(std::memory_order_acquire);
  if (s == nullptr) return;
  base::uncancelled const held;
  int const saved = errno;
  if (!bring_to_file(*s)) say_unfinished(*s);
  errno = saved;
}

void forget_in_child() noexcept {
  base::no_local_time_in_child();
  active.store(false, std::memory_order_relaxed);
  recorder_state* const s = recorder.exchange(nullptr);
  if (s == nullptr) return;
  s->area.drop();
  s->file.drop();
}

}  // namespace gpumem::recording
