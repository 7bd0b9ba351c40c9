// A correct program made of chance: threads that allocate, touch and free device memory in all ways, on all
// kinds of streams, with captures, events and streams that come and go, checked by the simulated CUDA and by
// its own data. Usage: random_program SEED OPERATIONS [THREADS]. Exit code 1: hazards, wrong data or a call
// that failed; each is said. It must be a program that a real device runs without a race, or its hazards
// would be its own.
#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "tests/simulated_cuda/simulated.h"

namespace {

std::atomic<int> faults{0};
std::atomic<int> allocations{0};

void check(CUresult code, char const* what) {
  if (code == CUDA_SUCCESS) return;
  if (++faults < 20) std::printf("%s: code %d\n", what, static_cast<int>(code));
}
#define CHECK(call) check(call, #call)

struct block {
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  unsigned char pattern = 0;
  std::vector<CUevent> uses;  // after each piece of work that touches it; all before a stream-ordered free
};

std::mutex bag_mutex;
std::vector<block> bag;
constexpr std::size_t most_live = 400;

// Taken exclusively by what the rules of captures forbid beside others: a global-mode capture, a context's
// barrier.
std::shared_mutex alone;

class worker {
 public:
  worker(unsigned seed, int operations, CUcontext context, std::vector<CUstream> const& shared)
      : random_(seed), operations_(operations), shared_(shared) {
    std::shared_lock const beside(alone);
    CHECK(cuCtxSetCurrent(context));
    for (CUstream& s : own_) CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  }

  void run() {
    for (int i = 0; i < operations_ && faults < 20; ++i) step();
    std::shared_lock const beside(alone);
    for (CUstream const s : own_) CHECK(cuStreamSynchronize(s));
  }

 private:
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }

  CUstream some_stream() {
    unsigned const pick = below(10);
    if (pick < 6) return own_[below(static_cast<unsigned>(own_.size()))];
    if (pick < 8) return shared_[below(static_cast<unsigned>(shared_.size()))];
    return pick == 8 ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
  }
  std::size_t some_size() {
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

  void step() {
    unsigned const pick = below(1000);
    if (pick < 3) return capture_alone();
    if (pick < 5) return barrier();
    std::shared_lock const beside(alone);
    if (pick < 12) return capture();
    if (pick < 20) return replace_stream();
    if (pick < 30) return CHECK(cuStreamSynchronize(own_[below(4)]));
    bool full = false;
    bool empty = false;
    {
      std::lock_guard const lock(bag_mutex);
      full = bag.size() >= most_live;
      empty = bag.empty();
    }
    if (!full && (empty || below(2) == 0)) {
      allocate();
    } else {
      free_one();
    }
  }

  void note_use(block& b, CUstream on) {
    CUevent event = nullptr;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(event, on));
    b.uses.push_back(event);
  }
  void order_after_uses(block const& b, CUstream stream) {
    for (CUevent const e : b.uses) CHECK(cuStreamWaitEvent(stream, e, 0));
  }
  void touch(block& b, CUstream on, bool writes) {
    order_after_uses(b, on);
    simulated_access const access{b.address, b.bytes, writes ? 1 : 0};
    CHECK(simulatedLaunch(on, &access, 1, below(60'000)));
    note_use(b, on);
  }

  void allocate() {
    block b;
    b.bytes = some_size();
    b.pattern = static_cast<unsigned char>(random_());
    bool const ordered = below(2) == 0;
    CUstream const on = some_stream();
    CUresult const code =
        ordered ? cuMemAllocAsync(&b.address, b.bytes, on) : cuMemAlloc(&b.address, b.bytes);
    if (code != CUDA_SUCCESS) return check(code, "an allocation");
    ++allocations;
    simulatedNoteAllocate(b.address, b.bytes, ordered ? on : nullptr);
    if (ordered) note_use(b, on);
    CUstream const first = some_stream();
    order_after_uses(b, first);
    if (b.bytes <= 65536) {
      CHECK(cuMemsetD8Async(b.address, b.pattern, b.bytes, first));
      note_use(b, first);
    } else {
      touch(b, first, true);
    }
    if (below(3) == 0) touch(b, some_stream(), false);
    std::lock_guard const lock(bag_mutex);
    bag.push_back(std::move(b));
  }

  void verify(block& b) {
    if (b.bytes > 65536) return;
    std::vector<unsigned char> seen(b.bytes);
    CUstream const on = own_[below(4)];
    order_after_uses(b, on);
    CHECK(cuMemcpyDtoHAsync(seen.data(), b.address, b.bytes, on));
    CHECK(cuStreamSynchronize(on));
    for (std::size_t i = 0; i < b.bytes; ++i) {
      if (seen[i] == b.pattern) continue;
      if (++faults < 20)
        std::printf("byte %zu of a block of %zu is %u, not %u\n", i, b.bytes, seen[i], b.pattern);
      return;
    }
  }

  void free_one() {
    block b;
    {
      std::lock_guard const lock(bag_mutex);
      if (bag.empty()) return;
      std::swap(bag[below(static_cast<unsigned>(bag.size()))], bag.back());
      b = std::move(bag.back());
      bag.pop_back();
    }
    if (below(8) == 0) verify(b);
    if (below(3) == 0) touch(b, some_stream(), below(2) == 0 && b.bytes > 65536);
    if (below(2) == 0) {
      CUstream const on = some_stream();
      order_after_uses(b, on);
      simulatedNoteFree(b.address, on);
      CHECK(cuMemFreeAsync(b.address, on));
    } else {
      simulatedNoteFree(b.address, nullptr);
      CHECK(cuMemFree(b.address));
    }
    for (CUevent const e : b.uses) CHECK(cuEventDestroy(e));
  }

  void replace_stream() {
    CUstream& s = own_[below(4)];
    CHECK(cuStreamDestroy(s));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  }

  void barrier() {
    std::unique_lock const lock(alone);
    CHECK(cuCtxSynchronize());
  }

  // Other threads go on: they allocate and free while this one captures.
  void capture() {
    record(below(2) == 0 ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  void capture_alone() {
    std::unique_lock const lock(alone);
    record(CU_STREAM_CAPTURE_MODE_GLOBAL);
  }

  void record(CUstreamCaptureMode mode) {
    CUstream const s = own_[0];
    CHECK(cuStreamBeginCapture(s, mode));
    CUdeviceptr node = 0;
    bool const with_memory = below(2) == 0;
    if (with_memory) {
      CHECK(cuMemAllocAsync(&node, 4096, s));
      CHECK(cuMemsetD8Async(node, 7, 4096, s));
      CHECK(cuMemFreeAsync(node, s));
    }
    // Stream-ordered memory on a stream that does not capture, in every mode; plain memory where the mode
    // allows it.
    block beside;
    beside.bytes = some_size();
    beside.pattern = 9;
    bool const plain = mode == CU_STREAM_CAPTURE_MODE_RELAXED && below(2) == 0;
    CUstream const other = own_[1];
    if (plain) {
      CHECK(cuMemAlloc(&beside.address, beside.bytes));
    } else {
      CHECK(cuMemAllocAsync(&beside.address, beside.bytes, other));
    }
    simulatedNoteAllocate(beside.address, beside.bytes, plain ? nullptr : other);
    simulated_access const access{beside.address, beside.bytes, 1};
    CHECK(simulatedLaunch(other, &access, 1, below(10'000)));
    simulatedNoteFree(beside.address, other);
    CHECK(cuMemFreeAsync(beside.address, other));
    CUgraph graph = nullptr;
    CHECK(cuStreamEndCapture(s, &graph));
    if (graph == nullptr) return;
    CUgraphExec ready = nullptr;
    CHECK(cuGraphInstantiate(&ready, graph, 0));
    CHECK(cuGraphLaunch(ready, s));
    CHECK(cuStreamSynchronize(s));
    CHECK(cuGraphExecDestroy(ready));
    CHECK(cuGraphDestroy(graph));
  }

  std::mt19937 random_;
  int const operations_;
  std::vector<CUstream> const& shared_;
  std::array<CUstream, 4> own_{};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  auto const seed = static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10));
  int const operations = std::atoi(argv[2]);
  int const threads = argc > 3 ? std::atoi(argv[3]) : 4;
  CUcontext context = nullptr;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  std::vector<CUstream> shared(2);
  CHECK(cuStreamCreate(&shared[0], CU_STREAM_DEFAULT));
  CHECK(cuStreamCreate(&shared[1], CU_STREAM_NON_BLOCKING));
  {
    std::vector<std::jthread> team;
    for (int t = 0; t < threads; ++t) {
      team.emplace_back([&, t] {
        worker(seed * 100 + static_cast<unsigned>(t), operations / threads, context, shared).run();
      });
    }
  }
  unsigned long long const hazards = simulatedHazardCount();
  std::printf("allocations %d faults %d hazards %llu\n", allocations.load(), faults.load(), hazards);
  for (unsigned long long i = 0; i < hazards && i < 5; ++i) std::printf("%s\n", simulatedHazardText(i));
  return faults == 0 && hazards == 0 ? 0 : 1;
}
