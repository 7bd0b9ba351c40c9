// What the programs share that send memory from one process to another by a transport of others (UCX, Open
// MPI): sizes of the rounds, stamps, and a look at the IPC calls of the transport, which prove that it
// exported memory and did not copy through the host. "same": 64 MiB each time; "mixed": 256 KiB to 96 MiB.
// One thread each.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <string>

#include "tests/programs/support.hpp"

namespace rounds {

using namespace programs;
using words = std::uint32_t;

inline int exported = 0;
inline int refused = 0;
inline int opened = 0;

__host__ __device__ inline words stamp(words round, words at) {
  return (round * 2654435761u) ^ (at * 40503u + 12345u);
}

static __global__ void write(words* block, std::size_t count, words round) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    block[i] = stamp(round, static_cast<words>(i));
}

static __global__ void verify(const words* block, std::size_t count, words round, unsigned long long* wrong) {
  unsigned long long mine = 0;
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    mine += block[i] != stamp(round, static_cast<words>(i));
  if (mine != 0) atomicAdd(wrong, mine);
}

struct options {
  unsigned count = 100;
  bool mixed = false;
  bool async = false;

  // The same on both sides.
  std::size_t size_of(unsigned round) const {
    if (!mixed) return 64 << 20;
    sequence numbers(round + 1);
    numbers.next(7);
    const std::size_t step = std::size_t{256} << 10;
    return step * (1 + (round % 4 == 0 ? numbers.next(384) : numbers.next(24)));
  }
  words* allocate(std::size_t bytes) const {
    void* block = nullptr;
    REQUIRE(async ? cudaMallocAsync(&block, bytes, nullptr) : cudaMalloc(&block, bytes));
    return static_cast<words*>(block);
  }
  void release(words* block) const { REQUIRE(async ? cudaFreeAsync(block, nullptr) : cudaFree(block)); }
};

// Blocks of the sender: up to three are alive where sizes are mixed, so that others begin within former ones.
class senders_blocks {
 public:
  explicit senders_blocks(const options& how) : how_(how) {}
  words* stamped(unsigned round) {
    const std::size_t bytes = how_.size_of(round);
    words* const block = how_.allocate(bytes);
    write<<<512, 256>>>(block, bytes / sizeof(words), round);
    REQUIRE(cudaDeviceSynchronize());
    alive_.push_back(block);
    return block;
  }
  void sent(unsigned round) {
    if (how_.mixed && alive_.size() < 3) return;
    const std::size_t which = round % alive_.size();
    how_.release(alive_[which]);
    alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  void end() {
    for (words* block : alive_) how_.release(block);
  }

 private:
  const options& how_;
  std::vector<words*> alive_;
};

// The receiver's: one for all rounds, or one each.
class receivers_block {
 public:
  explicit receivers_block(const options& how) : how_(how) {
    REQUIRE(cudaHostAlloc(reinterpret_cast<void**>(&wrong_), sizeof *wrong_, cudaHostAllocMapped));
    *wrong_ = 0;
    if (!how.mixed) fixed_ = how.allocate(64 << 20);
  }
  words* empty(unsigned round) {
    now_ = fixed_ != nullptr ? fixed_ : how_.allocate(how_.size_of(round));
    REQUIRE(cudaMemset(now_, 0xEE, how_.size_of(round)));
    REQUIRE(cudaDeviceSynchronize());
    return now_;
  }
  void received(unsigned round) {
    verify<<<512, 256>>>(now_, how_.size_of(round) / sizeof(words), round, wrong_);
    REQUIRE(cudaDeviceSynchronize());
    if (fixed_ == nullptr) how_.release(now_);
  }
  unsigned long long end() {
    if (fixed_ != nullptr) how_.release(fixed_);
    return *wrong_;
  }

 private:
  const options& how_;
  unsigned long long* wrong_ = nullptr;
  words* fixed_ = nullptr;
  words* now_ = nullptr;
};

inline void tell(const char* who) {
  std::fprintf(stderr, "%s: exported %d refused %d opened %d\n", who, exported, refused, opened);
}

template <typename Function>
Function next(Function, const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  // Where only a plugin of the transport has the driver.
  if (found == nullptr) found = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
  return reinterpret_cast<Function>(found);
}

}  // namespace rounds

// Transports are linked to these by name, or ask dlsym: seen on their way.
extern "C" {
CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  static const auto real = rounds::next(&cuIpcGetMemHandle, "cuIpcGetMemHandle");
  const CUresult code = real(handle, address);
  ++(code == CUDA_SUCCESS ? rounds::exported : rounds::refused);
  return code;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned int flags) {
  static const auto real = rounds::next(&cuIpcOpenMemHandle_v2, "cuIpcOpenMemHandle_v2");
  const CUresult code = real(address, handle, flags);
  if (code == CUDA_SUCCESS) ++rounds::opened;
  return code;
}
}
