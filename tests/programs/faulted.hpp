// What a program is told after a kernel of its faulted, by each of the ways in which it can learn of it.
// Shared by tests/programs/faulted.cpp, on the simulated CUDA, and tests/gpu/faulted_kernel.cu, which bring
// the fault and a launch. One thread.
#pragma once

#include <array>
#include <string>

#include "tests/programs/support.hpp"

namespace programs {

inline constexpr std::size_t faulted_sizes[] = {512, 1 << 16, 3 << 20, 80 << 20};

inline void show_code(const char* what, int code) {
  const int peeked = cudaPeekAtLastError();
  const int last = cudaGetLastError();
  std::printf("%s: %d, last error %d, taken %d\n", what, code, peeked, last);
}

// Of each kind once, and its free.
inline void show_requests(const char* when) {
  std::printf("%s\n", when);
  for (const std::size_t bytes : faulted_sizes) {
    void* block = nullptr;
    show_code("cudaMalloc", cudaMalloc(&block, bytes));
    if (block != nullptr) show_code("cudaFree", cudaFree(block));
  }
  void* block = nullptr;
  show_code("cudaMallocAsync", cudaMallocAsync(&block, 4096, nullptr));
  if (block != nullptr) show_code("cudaFreeAsync", cudaFreeAsync(block, nullptr));
  block = nullptr;
  show_code("cudaMallocManaged", cudaMallocManaged(&block, 4096));
  if (block != nullptr) show_code("cudaFree of managed", cudaFree(block));
  block = nullptr;
  show_code("cudaMallocHost", cudaMallocHost(&block, 4096));
  if (block != nullptr) show_code("cudaFreeHost", cudaFreeHost(block));
  show_code("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

// `fault` puts a kernel that faults on the stream, `launch` another one after it did. `resets`: the device,
// at the end.
inline void faulted(const std::string& told_by, bool resets, void (*fault)(cudaStream_t),
                    int (*launch)(cudaStream_t)) {
  constexpr std::size_t sizes = std::size(faulted_sizes);
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  std::array<void*, sizes> live{}, ordered{};
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 4096));
  for (std::size_t i = 0; i < sizes; ++i) {
    REQUIRE(cudaMalloc(&live[i], faulted_sizes[i]));
    REQUIRE(cudaMallocAsync(&ordered[i], faulted_sizes[i], stream));
    // To be had again at once, if nobody looked.
    for (int round = 0; round < 3; ++round) {
      std::array<void*, 4> spare{};
      for (void*& block : spare) REQUIRE(cudaMalloc(&block, faulted_sizes[i]));
      for (void* block : spare) REQUIRE(cudaFree(block));
    }
  }
  REQUIRE(cudaDeviceSynchronize());
  fault(stream);
  REQUIRE(cudaEventRecord(event, stream));
  int code = cudaErrorNotReady;
  unsigned char byte = 0;
  if (told_by == "device") code = cudaDeviceSynchronize();
  if (told_by == "stream") code = cudaStreamSynchronize(stream);
  if (told_by == "event") code = cudaEventSynchronize(event);
  while (told_by == "query" && code == cudaErrorNotReady) code = cudaStreamQuery(stream);
  while (told_by == "event_query" && code == cudaErrorNotReady) code = cudaEventQuery(event);
  if (told_by == "launch") code = launch(stream);
  if (told_by == "copy") {
    // The legacy stream does not wait for one that does not block.
    while (code == cudaErrorNotReady || code == cudaSuccess)
      code = cudaMemcpy(&byte, live[0], 1, cudaMemcpyDeviceToHost);
  }
  (void)cudaGetLastError();
  std::printf("told by %s: %d\n", told_by.c_str(), code);
  for (std::size_t i = 0; i < sizes; ++i) {
    show_code("cudaFree", cudaFree(live[i]));
    show_code("cudaFree again", cudaFree(live[i]));
    show_code("cudaFreeAsync", cudaFreeAsync(ordered[i], stream));
  }
  show_requests("of a context that is lost");
  show_code("cudaFreeHost", cudaFreeHost(pinned));
  if (!resets) return;
  show_code("cudaDeviceReset", cudaDeviceReset());
  show_requests("after the reset");
}

}  // namespace programs
