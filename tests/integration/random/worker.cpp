// See worker.hpp. Here: which step comes next, and what comes and goes.
#include "tests/integration/random/worker.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "tests/simulated_cuda/simulated.h"

namespace random_program {

worker::worker(world& all, unsigned seed, bool relaxed) : all_(all), random_(seed), relaxed_(relaxed) {
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
  return pick < 21 ? memory::plain : memory::ordered;
}

void worker::step() {
  ++operations;
  go(below(10) < 6 ? 0 : below(3));
  unsigned const pick = below(2000);
  if (pick < 6) {
    std::unique_lock const alone(all_.unrelaxed);
    return capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
  }
  if (pick < 10) return barrier();
  std::shared_lock beside(all_.unrelaxed, std::defer_lock);
  if (!relaxed_) beside.lock();
  anything();
}

void worker::anything() {
  unsigned const pick = below(2000);
  if (pick < 14) {
    return capture(below(2) == 0 ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  if (pick < 34) return replace_stream();
  if (pick < 54) return CHECK(cuStreamSynchronize(own()[below(4)]));
  if (pick < 60) return visit();
  if (pick < 62) return short_context();
  if (pick < 63) return fork_child();
  if (pick < 75) return free_in_host_function();
  std::size_t const live = here().live();
  if (live < place::most_live && (live == 0 || below(2) == 0)) return allocate();
  free_one();
}

void worker::replace_stream() {
  CUstream& s = own()[below(4)];
  CHECK(cuStreamDestroy(s));
  CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
}

void worker::barrier() {
  std::shared_lock beside(all_.unrelaxed, std::defer_lock);
  if (!relaxed_) beside.lock();
  std::unique_lock const alone(all_.captures);
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
  }).join();
}

void worker::short_context() {
  CUcontext context = nullptr;
  CHECK(cuCtxCreate(&context, nullptr, 0, static_cast<CUdevice>(below(static_cast<unsigned>(all_.devices)))));
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::array<CUdeviceptr, 6> blocks{};
  for (CUdeviceptr& b : blocks) {
    std::size_t const bytes = some_size();
    CHECK(below(2) == 0 ? cuMemAlloc(&b, bytes) : cuMemAllocAsync(&b, bytes, stream));
    ++allocations;
    simulatedNoteAllocate(b, bytes, stream);
    simulated_access const access{b, bytes, 1};
    CHECK(simulatedLaunch(stream, &access, 1, below(20'000)));
  }
  CHECK(cuStreamSynchronize(stream));
  // The driver's pools outlive a context, so what may lie in one is freed; the first two stay.
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    simulatedNoteFree(blocks[i], stream);
    if (i > 1) CHECK(cuMemFreeAsync(blocks[i], stream));
  }
  CHECK(cuCtxDestroy(context));
  CHECK(cuCtxSetCurrent(here().context));
}

// A child of a process that uses CUDA has none; one that executes anew has its own.
void worker::fork_child() {
  bool const anew = below(4) == 0;
  std::string const seed = std::to_string(below(1u << 20));
  pid_t const child = fork();
  if (child == 0) {
    if (anew) execl("/proc/self/exe", "random_program", seed.c_str(), "200", "2", "quiet", nullptr);
    CUdeviceptr address = 0;
    _exit(cuMemAlloc(&address, 4096) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    fault("a %s child ended with status %x", anew ? "new" : "forked", static_cast<unsigned>(status));
  }
}

}  // namespace random_program
