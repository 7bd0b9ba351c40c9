// What every test program shares: a require() that ends the program on an unexpected code, a checksum, and
// the tally of what this program itself asked of the driver, printed as its last line. Used by tests/programs
// and tests/gpu, from any thread. Counts only what reaches the driver: cudaMalloc(0) ends in the runtime, and
// cudaFree(nullptr) may.
// Nothing here may know of gpumem: these are the unmodified programs.
#pragma once

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace programs {

inline void require_at(long code, long wanted, const char* what, const char* file, int line) {
  if (code == wanted) return;
  std::fflush(stdout);
  std::fprintf(stderr, "%s:%d: %s gave %ld, wanted %ld\n", file, line, what, code, wanted);
  std::_Exit(3);
}
#define REQUIRE(call) ::programs::require_at(static_cast<long>(call), 0, #call, __FILE__, __LINE__)
#define REQUIRE_CODE(call, code) \
  ::programs::require_at(static_cast<long>(call), static_cast<long>(code), #call, __FILE__, __LINE__)

// Every byte must be that value: all at once, and one by one only where they are not.
inline void require_all_at(const void* data, std::size_t bytes, unsigned char value, const char* file,
                           int line) {
  const auto* at = static_cast<const unsigned char*>(data);
  if (bytes == 0 || (at[0] == value && std::memcmp(at, at + 1, bytes - 1) == 0)) return;
  for (std::size_t i = 0; i < bytes; ++i) require_at(at[i], value, "byte", file, line);
}
#define REQUIRE_ALL(data, bytes, value) ::programs::require_all_at(data, bytes, value, __FILE__, __LINE__)

// FNV-1a of words, whose high bits are brought down to where the next product spreads them. Order matters, so
// swapped or stale blocks change it. Programs read megabytes back: of bytes it was half of what some of them
// took.
class checksum {
 public:
  void add(const void* data, std::size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(data);
    for (; bytes >= sizeof(std::uint64_t); at += sizeof(std::uint64_t), bytes -= sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, at, sizeof word);
      add(word);
    }
    for (; bytes != 0; ++at, --bytes) add(std::uint64_t{*at});
  }
  void add(std::uint64_t number) {
    value_ = (value_ ^ number) * 1099511628211ULL;
    value_ ^= value_ >> 32;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 14695981039346656037ULL;
};

// A small generator with the same numbers everywhere; std's distributions differ between libraries.
class sequence {
 public:
  explicit sequence(std::uint64_t seed) : state_(seed * 2654435761ULL + 1) {}
  std::uint64_t next(std::uint64_t below) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ % below;
  }

 private:
  std::uint64_t state_;
};

// Through a pipe between two processes of a program: all of it, at once.
inline void transfer(bool out, int descriptor, void* data, std::size_t bytes) {
  const ssize_t moved = out ? write(descriptor, data, bytes) : read(descriptor, data, bytes);
  REQUIRE_CODE(moved, bytes);
}

// Driver calls made on behalf of this program, by the driver's names.
struct tally {
  std::atomic<std::uint64_t> allocations{0}, frees{0}, async_allocations{0}, async_frees{0}, bytes{0};

  void print() const {
    std::printf("counts:");
    line("cuMemAlloc", allocations);
    line("cuMemFree", frees);
    line("cuMemAllocAsync", async_allocations);
    line("cuMemFreeAsync", async_frees);
    std::printf(" bytes=%llu\n", static_cast<unsigned long long>(bytes.load()));
    std::fflush(stdout);
  }

 private:
  static void line(const char* name, const std::atomic<std::uint64_t>& count) {
    if (count != 0) std::printf(" %s=%llu", name, static_cast<unsigned long long>(count.load()));
  }
};
inline tally counts;

inline cudaError_t counted_malloc(void** block, std::size_t bytes) {
  if (bytes != 0) {
    ++counts.allocations;
    counts.bytes += bytes;
  }
  return cudaMalloc(block, bytes);
}
inline cudaError_t counted_free(void* block) {
  const cudaError_t code = cudaFree(block);
  if (block != nullptr && code != cudaErrorCudartUnloading) ++counts.frees;  // then it never left the runtime
  return code;
}
inline cudaError_t counted_malloc_async(void** block, std::size_t bytes, cudaStream_t stream) {
  ++counts.async_allocations;
  counts.bytes += bytes;
  return cudaMallocAsync(block, bytes, stream);
}
inline cudaError_t counted_free_async(void* block, cudaStream_t stream) {
  ++counts.async_frees;
  return cudaFreeAsync(block, stream);
}

// The block's content must be one byte value all over; adds it to the sum.
inline void verify_fill(const void* block, std::size_t bytes, unsigned char value, checksum& sum) {
  std::vector<unsigned char> host(bytes);
  REQUIRE(cudaMemcpy(host.data(), block, bytes, cudaMemcpyDeviceToHost));
  REQUIRE_ALL(host.data(), bytes, value);
  sum.add(bytes);
  sum.add(value);
}

}  // namespace programs
