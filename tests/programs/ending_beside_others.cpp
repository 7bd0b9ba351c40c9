// A context ends while threads in another context of its device ask for memory that the device can only have
// once the first one's is back. A library that keeps freed memory gives it back for that request, from the
// context that ends. Modes: `ends`: either answer to the request is right; `look`: a thread retains and
// releases the primary context, as libraries do to look at it, which ends nothing: each request is to be
// served; `keeps`: as `ends`, and what is written into each block is there until it is freed; `frees`:
// threads free blocks of the context that ends, each free is answered somehow, and what the next context of
// the device serves is its own; `late`: the same of frees that may be under way until the next context has
// served requests (that a driver bears such frees no GPU has confirmed). The second argument: rounds.
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

// Nobody else has the block: what is written stays, however often it is looked at.
void use(CUdeviceptr block, unsigned char value, int looks) {
  unsigned char found[64] = {};
  REQUIRE(cuMemsetD8(block, value, sizeof found));
  for (int look = 0; look < looks; ++look) {
    REQUIRE(cuMemcpyDtoH(found, block, sizeof found));
    for (unsigned char each : found) REQUIRE_CODE(each, value);
  }
}

// Takes and frees `blocks` blocks in a context of its own, which then ends.
void come_and_go(CUdevice device, std::size_t bytes, int blocks, bool used) {
  CUcontext context = nullptr;
  REQUIRE(cuCtxCreate(&context, nullptr, 0, device));
  for (int i = 0; i < blocks; ++i) {
    CUdeviceptr block = 0;
    if (cuMemAlloc(&block, bytes) != CUDA_SUCCESS) break;
    if (used) use(block, 9, 50);
    REQUIRE(cuMemFree(block));
    bytes += 2 << 20;
  }
  REQUIRE(cuCtxDestroy(context));
}

void ends(CUdevice device, CUcontext mine, std::size_t total, int rounds, bool used) {
  std::atomic<bool> stop{false};
  std::thread others[3];
  for (int i = 0; i < 3; ++i)
    others[i] = std::thread([&, i] {
      REQUIRE(cuCtxSetCurrent(mine));
      while (!stop) {
        CUdeviceptr block = 0;
        CUresult const code = cuMemAlloc(&block, total / 100 * 85);
        if (code == CUDA_SUCCESS) {
          if (used) use(block, static_cast<unsigned char>(i + 1), 2);
          REQUIRE(cuMemFree(block));
        } else if (code != CUDA_ERROR_OUT_OF_MEMORY) {
          REQUIRE(code);
        }
      }
    });
  for (int i = 0; i < rounds; ++i) come_and_go(device, total / 100 * 3, 8, used);
  stop = true;
  for (std::thread& each : others) each.join();
  std::puts("each context ended");
}

void look(CUdevice device, CUcontext mine, std::size_t total, int rounds) {
  CUcontext primary = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&primary, device));
  std::atomic<bool> stop{false};
  std::thread looker([&] {
    while (!stop) {
      CUcontext again = nullptr;
      REQUIRE(cuDevicePrimaryCtxRetain(&again, device));
      REQUIRE(cuDevicePrimaryCtxRelease(device));
    }
  });
  int refused = 0;
  for (int i = 0; i < rounds; ++i) {
    CUdeviceptr blocks[8] = {};
    REQUIRE(cuCtxSetCurrent(primary));
    for (CUdeviceptr& each : blocks) REQUIRE(cuMemAlloc(&each, total / 100 * 5));
    for (CUdeviceptr const each : blocks) REQUIRE(cuMemFree(each));
    REQUIRE(cuCtxSetCurrent(mine));
    CUdeviceptr large = 0;
    if (cuMemAlloc(&large, total / 100 * 85) == CUDA_SUCCESS) {
      REQUIRE(cuMemFree(large));
    } else {
      ++refused;
    }
  }
  stop = true;
  looker.join();
  std::printf("%d requests were refused\n", refused);
  REQUIRE(cuDevicePrimaryCtxRelease(device));
}

// Blocks of a context that has just begun: whoever was late with a free of the last one's gave nothing to it.
void own(std::size_t bytes) {
  CUdeviceptr blocks[24] = {};
  unsigned char value = 0, found = 0;
  for (CUdeviceptr& each : blocks) {
    REQUIRE(cuMemAlloc(&each, bytes));
    REQUIRE(cuMemsetD8(each, ++value, bytes));
  }
  value = 0;
  for (CUdeviceptr const each : blocks) {
    REQUIRE(cuMemcpyDtoH(&found, each + bytes - 1, 1));
    REQUIRE_CODE(found, ++value);
  }
  for (CUdeviceptr const each : blocks) REQUIRE(cuMemFree(each));
}

void frees(CUdevice device, int rounds) {
  constexpr std::size_t bytes[] = {300 << 10, 3 << 20};
  constexpr int threads = 3, each_frees = 40;
  for (int i = 0; i < rounds; ++i) {
    CUcontext context = nullptr;
    REQUIRE(cuCtxCreate(&context, nullptr, 0, device));
    own(bytes[i % 2]);
    static CUdeviceptr blocks[threads][each_frees];
    for (auto& group : blocks)
      for (CUdeviceptr& each : group) REQUIRE(cuMemAlloc(&each, bytes[i % 2]));
    std::atomic<int> begun{0};
    std::thread others[threads];
    for (int n = 0; n < threads; ++n)
      others[n] = std::thread([&, n] {
        for (CUdeviceptr const each : blocks[n]) {
          ++begun;
          cuMemFree(each);
        }
      });
    while (begun < threads * each_frees / 4) {
    }
    REQUIRE(cuCtxDestroy(context));
    for (std::thread& each : others) each.join();
  }
  std::puts("each context had its own");
}

// No two of them lie in the same memory, which is there. Without those at an address that a free under way
// may have named.
void expect_apart(std::vector<CUdeviceptr> all, std::size_t bytes, std::vector<CUdeviceptr> const& freed) {
  std::erase_if(all,
                [&](CUdeviceptr each) { return std::find(freed.begin(), freed.end(), each) != freed.end(); });
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    REQUIRE(cuMemsetD8(all[i], 1, 1));
    REQUIRE(cuMemsetD8(all[i] + bytes - 1, 1, 1));
    REQUIRE_CODE(i > 0 && all[i] - all[i - 1] < bytes, 0);
  }
}

void late(CUdevice device, int rounds) {
  constexpr std::size_t bytes[] = {300 << 10, 3 << 20};
  constexpr int threads = 3, of_main = 32, of_each = 24;
  for (int i = 0; i < rounds; ++i) {
    std::size_t const size = bytes[i % 2];
    CUcontext context = nullptr, next = nullptr;
    REQUIRE(cuCtxCreate(&context, nullptr, 0, device));
    std::vector<CUdeviceptr> freed(of_main), served(of_main);
    for (CUdeviceptr& each : freed) REQUIRE(cuMemAlloc(&each, size));
    freed.resize(threads);
    std::atomic<int> begun{0};
    std::atomic<bool> has_next{false};
    std::vector<CUdeviceptr> served_others[threads];
    std::thread others[threads];
    for (int n = 0; n < threads; ++n)
      others[n] = std::thread([&, n] {
        ++begun;
        cuMemFree(freed[static_cast<std::size_t>(n)]);
        while (!has_next) std::this_thread::yield();
        REQUIRE(cuCtxSetCurrent(next));
        served_others[n].resize(of_each);
        for (CUdeviceptr& each : served_others[n]) REQUIRE(cuMemAlloc(&each, size));
      });
    while (begun < threads) std::this_thread::yield();
    REQUIRE(cuCtxDestroy(context));
    REQUIRE(cuCtxCreate(&next, nullptr, 0, device));
    for (CUdeviceptr& each : served) REQUIRE(cuMemAlloc(&each, size));
    for (CUdeviceptr const each : served) REQUIRE(cuMemsetD8(each, 9, 1));
    has_next = true;
    for (std::thread& each : others) each.join();
    for (CUdeviceptr const each : served) {
      unsigned char found = 9;
      bool const is_freed = std::find(freed.begin(), freed.end(), each) != freed.end();
      if (!is_freed) REQUIRE(cuMemcpyDtoH(&found, each, 1));
      REQUIRE_CODE(found, 9);
    }
    for (auto const& more : served_others) served.insert(served.end(), more.begin(), more.end());
    expect_apart(served, size, freed);
    REQUIRE(cuCtxDestroy(next));
  }
  std::puts("each block was one request's");
}

}  // namespace

int main(int argc, char** argv) {
  bool const looks = argc > 1 && std::strcmp(argv[1], "look") == 0;
  int const rounds = argc > 2 ? std::atoi(argv[2]) : 100;
  CUdevice device = 0;
  CUcontext mine = nullptr;
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGet(&device, 0));
  REQUIRE(cuCtxCreate(&mine, nullptr, 0, device));
  REQUIRE(cuMemGetInfo(&free_bytes, &total));
  if (argc > 1 && std::strcmp(argv[1], "frees") == 0) {
    frees(device, rounds);
  } else if (argc > 1 && std::strcmp(argv[1], "late") == 0) {
    late(device, rounds);
  } else if (looks) {
    look(device, mine, total, rounds);
  } else {
    ends(device, mine, total, rounds, argc > 1 && std::strcmp(argv[1], "keeps") == 0);
  }
  REQUIRE(cuCtxDestroy(mine));
}
