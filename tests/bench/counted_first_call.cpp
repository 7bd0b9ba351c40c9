// A call of a process that does what no call before it did: the first allocation, the first that is sampled,
// the first free, the first allocation of a second thread. counted_first makes it, between two writes that
// fail and that a trace of system calls shows. The argument names it; prints the page faults of the call.
// first_call_counts.py runs it, also under strace and callgrind. Simulated CUDA.
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "tests/programs/support.hpp"

namespace {

long page_faults() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt + used.ru_majflt;  // of a file without data, which is no disk's, some count as major
}

// As a real driver and runtime do while they set themselves up: what the heap has at hand is used up.
void use_up_heap() {
  for (int i = 0; i < 64; ++i) {
    void* const kept = std::malloc(4096);
    if (kept == nullptr) std::abort();
    std::memset(kept, 1, 4096);
  }
}

void mark(const char* text) {
  if (write(-1, text, std::strlen(text)) >= 0) std::abort();
}

}  // namespace

extern "C" __attribute__((noinline, visibility("default"))) void counted_first(void (*call)(void*&),
                                                                               void*& block) {
  call(block);
}

namespace {

cudaStream_t stream = nullptr;

void count(void (*call)(void*&), void*& block) {
  mark("warm");
  page_faults();
  mark("begin");
  const long before = page_faults();
  counted_first(call, block);
  const long after = page_faults();
  mark("end");
  std::printf("faults %ld\n", after - before);
}

template <std::size_t bytes>
void allocate(void*& block) {
  REQUIRE(cudaMalloc(&block, bytes));
}
void allocate_async(void*& block) {
  REQUIRE(cudaMallocAsync(&block, 4096, stream));
}
void free_block(void*& block) {
  REQUIRE(cudaFree(block));
}

void nothing(void*&) {}
// What is not counted comes before; as many bytes as nobody draws none of are sampled.
constexpr std::size_t sampled = std::size_t{1} << 30;
struct kind {
  const char* name;
  void (*before)(void*&);
  void (*call)(void*&);
};
constexpr kind kinds[] = {
    {"malloc", nothing, allocate<4096>},
    {"async", [](void*&) { REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); },
     allocate_async},
    {"sampled", allocate<4096>, allocate<sampled>},
    {"free", allocate<4096>, free_block},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  REQUIRE(cudaFree(nullptr));
  void* block = nullptr;
  if (std::strcmp(argv[1], "thread") == 0) {
    allocate<4096>(block);
    std::thread([] {
      void* mine = nullptr;
      REQUIRE(cudaSetDevice(0));
      REQUIRE(cudaFree(nullptr));
      count(allocate<4096>, mine);
    }).join();
    return 0;
  }
  for (const kind& each : kinds) {
    if (std::strcmp(argv[1], each.name) != 0) continue;
    use_up_heap();
    each.before(block);
    count(each.call, block);
    return 0;
  }
  return 2;
}
