// The first allocation of a process that has a context, or the first that is sampled, by itself:
// counted_first is called once, between two writes that fail and that a trace of system calls shows.
// Argument: malloc, async or sampled; prints the page faults of the call. first_call_counts.py runs it, also
// under strace and callgrind. Simulated CUDA, one thread.
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>

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

extern "C" __attribute__((noinline, visibility("default"))) void counted_first(void** block,
                                                                               std::size_t bytes,
                                                                               cudaStream_t stream) {
  REQUIRE(stream != nullptr ? cudaMallocAsync(block, bytes, stream) : cudaMalloc(block, bytes));
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaFree(nullptr));
  if (std::strcmp(argv[1], "async") == 0) REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  use_up_heap();
  void* block = nullptr;
  std::size_t bytes = 4096;
  if (std::strcmp(argv[1], "sampled") == 0) {
    REQUIRE(cudaMalloc(&block, bytes));
    bytes = std::size_t{1} << 30;  // as many as nobody draws none of
  }
  mark("warm");
  page_faults();
  mark("begin");
  const long before = page_faults();
  counted_first(&block, bytes, stream);
  const long after = page_faults();
  mark("end");
  std::printf("faults %ld\n", after - before);
  REQUIRE(stream != nullptr ? cudaFreeAsync(block, stream) : cudaFree(block));
}
