// The runtime's own two pairs, cudaMalloc + cudaFree and cudaMallocAsync + cudaFreeAsync, and the choice by
// name. Called once at the start of a workload; the allocators themselves from any thread.
#include <cstdio>
#include <cstdlib>
#include <new>

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

}  // namespace

std::unique_ptr<allocator> make_allocator(const std::string& name) {
  if (name == "malloc") return std::make_unique<runtime_malloc>();
  if (name == "async") return std::make_unique<runtime_async>();
  if (auto peer = make_peer(name)) return peer;
  std::fprintf(stderr,
               "no allocator '%s' here: malloc, async, and by build: cub, rmm-pool, rmm-arena, rmm-binning, "
               "rmm-cuda_async\n",
               name.c_str());
  std::exit(2);
}

}  // namespace bench
