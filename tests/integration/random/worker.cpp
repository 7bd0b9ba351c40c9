// See worker.hpp. Here: which step comes next, and what comes and goes.
#include "tests/integration/random/worker.hpp"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace random_program {

worker::worker(world& all, unsigned seed, bool relaxed, std::size_t number)
    : all_(all), random_(seed), relaxed_(relaxed), number_(number), own_(all.places.size()) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (relaxed_) CHECK(cuThreadExchangeStreamCaptureMode(&mode));
  std::shared_lock const beside(all_.unrelaxed);
  for (std::size_t i = 0; i < own_.size(); ++i) {
    go(i);
    for (CUstream& s : own()) CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  }
}

void worker::run(int steps) {
  for (int i = 0; i < steps && !too_many_faults(); ++i) step();
  std::shared_lock const beside(all_.unrelaxed);
  for (std::size_t i = 0; i < own_.size(); ++i) {
    go(i);
    for (CUstream const s : own()) CHECK(cuStreamSynchronize(s));
    end_of_thread();
  }
}

void worker::tidy() {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    go(i);
    for (std::size_t left = here().live() / 2; left > 0; --left) free_one();
  }
}

void worker::go(std::size_t to) {
  now_ = to;
  CHECK(cuCtxSetCurrent(here().context));
}

CUstream worker::some_stream() {
  unsigned const pick = below(10);
  if (pick < 6) return own()[below(4)];
  if (pick < 8) return here().shared[below(2)];
  return pick == 8 ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
}

std::size_t worker::some_size() {
  switch (below(16)) {
    case 0:
      return 1 + below(64u << 20);
    case 1:
    case 2:
      return 1 + below(4u << 20);
    case 3:
    case 4:
    case 5:
      return std::size_t{1024} << below(8);
    default:
      return 1 + below(1u << (6 + below(11)));
  }
}

memory worker::some_kind() {
  unsigned const pick = below(40);
  if (pick == 0) return memory::managed;
  if (pick == 1) return memory::pinned;
  if (pick == 2) return memory::pinned_old;
  if (pick == 3) return memory::pitched;
  if (pick == 4) return memory::pooled;
  return pick < 22 ? memory::plain : memory::ordered;
}

void worker::step() {
  ++operations;
  go(below(10) < 6 ? 0 : below(static_cast<unsigned>(all_.places.size())));
  unsigned const pick = below(2000);
  if (pick < 6) {
    does("waits for a capture in global mode");
    std::unique_lock const alone(all_.unrelaxed);
    does("captures in global mode");
    return capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
  }
  if (pick < 10) return barrier();
  std::shared_lock beside(all_.unrelaxed, std::defer_lock);
  if (!relaxed_) beside.lock();
  anything();
}

// Of 2,000 steps; all others allocate and free. On a device those that are slow take a good part of a second,
// and in a host function and a forked child its driver may wait for a lock that the process held.
struct worker::rare_step {
  unsigned weight;
  char const* name;
  void (worker::*run)();
  bool slow = false;
  bool simulated_only = false;
};

void worker::anything() {
  static constexpr rare_step rare[] = {
      {14, "captures", &worker::capture_some},
      {20, "replaces a stream", &worker::replace_stream},
      {20, "synchronises a stream", &worker::synchronize_stream},
      {12, "visits", &worker::visit},
      {2, "has a short context", &worker::short_context, true},
      {1, "forks", &worker::fork_child, true},
      {12, "frees in a host function", &worker::free_in_host_function, false, true},
      {6, "exports", &worker::export_one},
      {40, "frees without events", &worker::free_without_events},
      {1, "is a crowd", &worker::crowd, true},
      {20, "races for a context", &worker::race, true},
      {2, "is cancelled", &worker::cancelled, false, true},
      {20, "asks about a block", &worker::ask},
      {4, "trims a pool", &worker::trim},
      {4, "maps memory of its own", &worker::map_own_memory},
      {4, "registers memory of its own", &worker::register_own_memory},
      {0, "works in a part of a context", &worker::work_in_part, true, true},
  };
  unsigned pick = below(2000);
  for (rare_step const& each : rare) {
    bool const comes_often = often >= 0 && &each == &rare[static_cast<std::size_t>(often) % std::size(rare)];
    unsigned const weight = !comes_often ? each.weight : each.slow ? 60 : 600;
    if (pick >= weight) {
      pick -= weight;
      continue;
    }
    bool const here_too =
        !device_work::on_a_gpu() || (!each.simulated_only && (!each.slow || below(20) == 0));
    if (!here_too) break;
    does(each.name);
    return (this->*each.run)();
  }
  does("allocates or frees");
  std::size_t const live = here().live();
  if (live < place::most_live && (live == 0 || below(2) == 0)) return allocate();
  free_one();
}

void worker::capture_some() {
  capture(below(2) == 0 ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_RELAXED);
}

void worker::synchronize_stream() {
  CHECK(cuStreamSynchronize(own()[below(4)]));
}

void worker::replace_stream() {
  CUstream& s = own()[below(4)];
  if (device_work::on_a_gpu()) CHECK(cuStreamSynchronize(s));  // as for end_of_thread
  CHECK(cuStreamDestroy(s));
  CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
}

void worker::barrier() {
  does("waits for a barrier");
  std::shared_lock beside(all_.unrelaxed, std::defer_lock);
  if (!relaxed_) beside.lock();
  std::unique_lock const alone(all_.captures);
  does("is at a barrier");
  CHECK(cuCtxSynchronize());
}

// Its stream dies with it, its blocks do not.
void worker::visit() {
  std::thread([this] {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (relaxed_) CHECK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(cuCtxSetCurrent(here().context));
    for (int i = 0; i < 3; ++i) allocate_on(CU_STREAM_PER_THREAD);
    for (int i = 0; i < 3; ++i) free_one();
    end_of_thread();
  }).join();
}

// A driver (580.159) hangs now and then when a thread ends with work on its own stream, or when a stream is
// destroyed that has work: it waits, under a lock, for a thread of its own that wants the lock.
void worker::end_of_thread() {
  if (device_work::on_a_gpu()) CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

void worker::crowd() {
  for (int i = 0; i < 64; ++i) {
    std::thread([this] {
      CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
      if (relaxed_) CHECK(cuThreadExchangeStreamCaptureMode(&mode));
      CHECK(cuCtxSetCurrent(here().context));
      allocate_on(CU_STREAM_PER_THREAD);
      free_one();
      end_of_thread();
    }).join();
  }
}

// A driver may have points within a call at which a thread is cancelled, so it need not come back from there;
// nothing else may come of it.
void worker::cancelled() {
  pthread_t thread{};
  auto const run = [](void* argument) -> void* {
    auto* const from = static_cast<worker*>(argument);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (from->relaxed_) CHECK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(cuCtxSetCurrent(from->here().context));
    pthread_cancel(pthread_self());
    CUdeviceptr address = 0;
    if (got(cuMemAllocAsync(&address, 4096, CU_STREAM_PER_THREAD), "of a cancelled thread"))
      CHECK(cuMemFreeAsync(address, CU_STREAM_PER_THREAD));
    for (;;) pthread_testcancel();
  };
  if (pthread_create(&thread, nullptr, run, this) == 0) pthread_join(thread, nullptr);
}

void worker::short_context() {
  CUcontext context = nullptr;
  device_work work;
  CHECK(cuCtxCreate(&context, nullptr, 0,
                    all_.places[below(static_cast<unsigned>(all_.places.size()))].device));
  work.open();
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::array<block, 6> blocks;
  for (block& b : blocks) {
    b.bytes = some_size();
    b.stamp = next_stamp();
    b.kind = below(2) == 0 ? memory::plain : memory::ordered;
    CUresult const code = b.kind == memory::plain ? cuMemAlloc(&b.address, b.bytes)
                                                  : cuMemAllocAsync(&b.address, b.bytes, stream);
    if (!got(code, "of a short context")) continue;
    ++allocations;
    device_work::took(b, stream);
    CHECK(work.stamp(b, stream, 0));
    CHECK(work.look(b, stream, below(20'000)));
  }
  CHECK(cuStreamSynchronize(stream));
  // The driver's pools outlive a context, so what may lie in one is freed; what is plain may stay.
  for (block const& b : blocks) {
    if (b.address == 0) continue;
    device_work::gives(b, stream);
    if (b.kind == memory::ordered || below(2) == 0) CHECK(cuMemFreeAsync(b.address, stream));
  }
  CHECK(cuStreamSynchronize(stream));
  work.close();
  CHECK(cuCtxDestroy(context));
  CHECK(cuCtxSetCurrent(here().context));
}

// Between its retain and its release a thread may do what it likes, whatever the others release. What it
// leaves there ends with the context, which is whenever nobody holds it.
void worker::race() {
  if (all_.raced < 0) return;
  CUcontext context = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, all_.raced));
  CHECK(cuCtxSetCurrent(context));
  device_work work;
  work.open();
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (unsigned i = 1 + below(4); i > 0; --i) {
    block b;
    b.bytes = some_size();
    b.stamp = next_stamp();
    b.kind = below(2) == 0 ? memory::plain : memory::ordered;
    CUresult const code = b.kind == memory::plain ? cuMemAlloc(&b.address, b.bytes)
                                                  : cuMemAllocAsync(&b.address, b.bytes, stream);
    if (!got(code, "of a race")) continue;
    ++allocations;
    device_work::took(b, stream);
    CHECK(work.stamp(b, stream, 0));
    CHECK(work.look(b, stream, below(40'000)));
    device_work::gives(b, b.kind == memory::plain ? nullptr : stream);
    if (b.kind == memory::ordered) CHECK(cuMemFreeAsync(b.address, stream));
    if (b.kind == memory::plain && below(4) != 0) CHECK(cuMemFree(b.address));
  }
  CHECK(cuStreamSynchronize(stream));
  work.close();
  CHECK(cuStreamDestroy(stream));
  CHECK(cuDevicePrimaryCtxRelease(all_.raced));
  CHECK(cuCtxSetCurrent(here().context));
}

// A child of a process that uses CUDA has none; one that executes anew has its own.
void worker::fork_child() {
  bool const anew = below(4) == 0;
  std::string const seed = std::to_string(below(1u << 20));
  pid_t const child = fork();
  if (child == 0) {
    char const* const more = frees_wait ? "--calls-wait" : requests_wait ? "--requests-wait" : nullptr;
    char const* const quiet = other_memory ? "--other-memory" : "quiet";
    if (anew)
      execl("/proc/self/exe", "random_program", seed.c_str(), "200", "2", "quiet", quiet, more, nullptr);
    if (device_work::on_a_gpu()) _exit(0);
    CUdeviceptr address = 0;
    _exit(cuMemAlloc(&address, 4096) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    fault("a %s child ended with status %x, seed %s", anew ? "new" : "forked", static_cast<unsigned>(status),
          seed.c_str());
  }
}

}  // namespace random_program
