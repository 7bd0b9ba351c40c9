// RMM's strategies as plain CUDA, each to be run under the chain of its name: strategies NAME. Says each call
// on stderr before it is made, so that the lines that `logging` writes for the driver's calls stand below the
// call that caused them. Knows nothing of gpumem. docs/strategies.md shows each function; strategies.py does
// the same in Python.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

namespace {

constexpr std::size_t kib = 1 << 10, mib = 1 << 20;

bool said(char const* call, std::size_t bytes) {
  if (bytes == 0) return std::fprintf(stderr, "%s\n", call) > 0;
  return std::fprintf(stderr, "%s %zu %s\n", call, bytes < mib ? bytes / kib : bytes / mib,
                      bytes < mib ? "KiB" : "MiB") > 0;
}

void* take(std::size_t bytes) {
  void* block = nullptr;
  said("cudaMalloc", bytes);
  if (cudaMalloc(&block, bytes) != cudaSuccess) said("  out of memory", 0);
  cudaGetLastError();  // a refusal is told once
  return block;
}

void* take(std::size_t bytes, cudaStream_t stream) {
  void* block = nullptr;
  said("cudaMallocAsync", bytes);
  if (cudaMallocAsync(&block, bytes, stream) != cudaSuccess) said("  out of memory", 0);
  return block;
}

void give(void* block) {
  said("cudaFree", 0);
  cudaFree(block);
}

void give(void* block, cudaStream_t stream) {
  said("cudaFreeAsync", 0);
  cudaFreeAsync(block, stream);
}

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  return stream;
}

void plain() {
  for (int round = 0; round < 2; ++round) {
    give(take(1 * mib));
  }
}

void pool() {
  void* a = take(1 * mib);
  void* b = take(2 * mib);
  give(a);
  give(b);
  give(take(3 * mib));
  give(take(16 * mib));
}

void fixed_size() {
  void* a = take(4 * kib);
  void* b = take(64 * kib);
  give(a);
  give(take(32 * kib));
  give(b);
  give(take(100 * kib));
}

void binning() {
  void* a = take(1 * kib);
  void* b = take(200 * kib);
  void* c = take(2 * mib);
  give(a);
  give(b);
  give(c);
}

void arena() {
  cudaStream_t one = new_stream(), other = new_stream();
  void* a = take(64 * kib, one);
  void* b = take(64 * kib, other);
  give(a, one);
  give(b, other);
  give(take(64 * kib, one), one);
}

void cuda_async() {
  cudaStream_t stream = new_stream();
  for (int round = 0; round < 2; ++round) {
    give(take(1 * mib, stream), stream);
  }
}

void managed_prefetch() {
  void* a = take(32 * mib);
  void* b = take(16 * mib);
  give(a);
  give(b);
  give(take(48 * mib));
}

void limiting() {
  void* a = take(48 * mib);
  void* b = take(32 * mib);
  give(a);
  b = take(32 * mib);
  give(b);
}

}  // namespace

int main(int argc, char** argv) {
  struct {
    char const* name;
    void (*run)();
  } const all[] = {{"plain", plain},
                   {"pool", pool},
                   {"fixed_size", fixed_size},
                   {"binning", binning},
                   {"arena", arena},
                   {"cuda_async", cuda_async},
                   {"managed_prefetch", managed_prefetch},
                   {"limiting", limiting}};
  for (auto const& one : all) {
    if (argc > 1 && std::strcmp(argv[1], one.name) == 0) return one.run(), 0;
  }
  std::fprintf(stderr, "which strategy?\n");
  return 2;
}
