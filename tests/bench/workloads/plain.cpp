// The runtime's own two pairs, cudaMalloc + cudaFree and cudaMallocAsync + cudaFreeAsync, blocks that were
// made before, and the choice by name. Called once at the start of a workload; the allocators from any
// thread.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "tests/bench/workloads/allocator.hpp"

namespace bench {
namespace {

void check(cudaError_t code) {
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  if (code == cudaErrorMemoryAllocation) throw std::bad_alloc();
  std::fprintf(stderr, "%s\n", cudaGetErrorString(code));
  std::_Exit(3);
}

class runtime_malloc final : public allocator {
 public:
  void* allocate(std::size_t bytes, cudaStream_t) override {
    void* block = nullptr;
    check(cudaMalloc(&block, bytes));
    return block;
  }
  void free(void* block, std::size_t, cudaStream_t) override { check(cudaFree(block)); }
  bool stream_ordered() const override { return false; }
};

class runtime_async final : public allocator {
 public:
  void* allocate(std::size_t bytes, cudaStream_t stream) override {
    void* block = nullptr;
    check(cudaMallocAsync(&block, bytes, stream));
    return block;
  }
  void free(void* block, std::size_t, cudaStream_t stream) override { check(cudaFreeAsync(block, stream)); }
};

// What the workload `footprint` takes where nobody allocates: each thread has as many of the largest blocks
// as it holds at once. What it frees last it gets first, whatever the streams.
class ready_made final : public allocator {
 public:
  ready_made() { check(cudaMalloc(reinterpret_cast<void**>(&memory_), blocks * bytes_each)); }
  void* allocate(std::size_t bytes, cudaStream_t) override {
    if (!own().empty()) {
      void* const block = own().back();
      own().pop_back();
      return block;
    }
    const std::size_t taken = taken_++;
    if (bytes > bytes_each || taken >= blocks) throw std::bad_alloc();
    return memory_ + taken * bytes_each;
  }
  void free(void* block, std::size_t, cudaStream_t) override { own().push_back(block); }

 private:
  static constexpr std::size_t blocks = 8 * 12, bytes_each = 32 << 20;
  static std::vector<void*>& own() {
    thread_local std::vector<void*> freed;
    return freed;
  }
  char* memory_ = nullptr;
  std::atomic<std::size_t> taken_{0};
};

}  // namespace

std::unique_ptr<allocator> make_allocator(const std::string& name) {
  if (name == "malloc") return std::make_unique<runtime_malloc>();
  if (name == "async") return std::make_unique<runtime_async>();
  if (name == "ready") return std::make_unique<ready_made>();
  if (auto peer = make_peer(name)) return peer;
  std::fprintf(
      stderr,
      "no allocator '%s' here: malloc, async, ready, and by build: cub, rmm-pool, rmm-arena, rmm-binning, "
      "rmm-cuda_async\n",
      name.c_str());
  std::exit(2);
}

}  // namespace bench
