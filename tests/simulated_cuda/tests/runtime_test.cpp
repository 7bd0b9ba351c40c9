// The stand-in runtime: how it finds the driver, its codes and last error, its notes to the checker.
// Links the shared stand-in runtime and no driver; the dlsym below sees every look-up that the runtime makes.
// Run with LD_LIBRARY_PATH on the simulated folder.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "simulated.h"

namespace {

std::vector<std::string>& looked_up() {
  static auto* const names = new std::vector<std::string>;
  return *names;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle, char const* name) noexcept {
  using function = void*(void*, char const*);
  static function* real = nullptr;
  for (char const* version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
    if (real == nullptr) real = reinterpret_cast<function*>(dlvsym(RTLD_NEXT, "dlsym", version));
  }
  looked_up().push_back(name);
  return real(handle, name);
}

TEST(runtime, finds_the_driver_with_one_dlsym) {
  looked_up().clear();
  ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
  ASSERT_EQ(looked_up().size(), 1u);
  EXPECT_EQ(looked_up()[0], "cuGetProcAddress_v2");
  EXPECT_GT(simulated_control::calls("cuGetProcAddress_v2"), 80u);
}

TEST(runtime, codes_and_last_error) {
  void* p = &p;
  EXPECT_EQ(cudaMalloc(&p, 0), cudaSuccess);
  EXPECT_EQ(p, nullptr);
  EXPECT_EQ(cudaMalloc(&p, 1ull << 44), cudaErrorMemoryAllocation);
  EXPECT_EQ(p, nullptr);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&p, 100), cudaSuccess);
  EXPECT_EQ(cudaFree(static_cast<char*>(p) + 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(p), cudaSuccess);
  EXPECT_EQ(cudaFree(p), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST(runtime, cross_frees) {
  void *plain = nullptr, *ordered = nullptr;
  ASSERT_EQ(cudaMalloc(&plain, 1000), cudaSuccess);
  ASSERT_EQ(cudaMallocAsync(&ordered, 1000, nullptr), cudaSuccess);
  EXPECT_EQ(cudaFree(ordered), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(plain, nullptr), cudaSuccess);
}

TEST(runtime, bytes_arrive) {
  void* p = nullptr;
  std::vector<char> in(5000, 3), out(5000);
  ASSERT_EQ(cudaMalloc(&p, 5000), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(p, in.data(), 5000, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemset(p, 4, 10), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(out.data(), p, 5000, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(out[9], 4);
  EXPECT_EQ(out[10], 3);
  cudaPointerAttributes seen{};
  ASSERT_EQ(cudaPointerGetAttributes(&seen, p), cudaSuccess);
  EXPECT_EQ(seen.type, cudaMemoryTypeDevice);
  EXPECT_EQ(seen.devicePointer, p);
  ASSERT_EQ(cudaPointerGetAttributes(&seen, in.data()), cudaSuccess);
  EXPECT_EQ(seen.type, cudaMemoryTypeUnregistered);
  cudaFree(p);
}

TEST(runtime, reset_and_devices) {
  void* p = nullptr;
  int device = -1;
  EXPECT_EQ(cudaSetDevice(7), cudaErrorInvalidDevice);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&p, 100), cudaSuccess);
  ASSERT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaFree(p), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMalloc(&p, 100), cudaSuccess);
  EXPECT_EQ(cudaFree(p), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST(runtime, notes_let_the_checker_tell_use_after_free) {
  simulated_control::clear_hazards();
  void* p = nullptr;
  cudaStream_t on = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&on, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaMallocAsync(&p, 4096, on), cudaSuccess);
  ASSERT_EQ(simulated_control::launch(on, p, 4096, 1000), CUDA_SUCCESS);
  ASSERT_EQ(cudaFreeAsync(p, on), cudaSuccess);
  EXPECT_EQ(simulated_control::hazards(), 0u);
  ASSERT_EQ(simulated_control::launch(on, p, 4096, 1000), CUDA_SUCCESS);
  EXPECT_EQ(simulated_control::hazards(), 1u);
  simulated_control::clear_hazards();
  ASSERT_EQ(cudaStreamDestroy(on), cudaSuccess);
}

TEST(runtime, a_refused_free_leaves_the_allocation) {
  simulated_control::clear_hazards();
  void* p = nullptr;
  cudaStream_t on = nullptr;
  ASSERT_EQ(cudaMalloc(&p, 4096), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&on, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(on, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(cudaFree(p), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(on, &graph), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(simulated_control::launch(on, p, 4096, 1000), CUDA_SUCCESS);
  EXPECT_EQ(simulated_control::hazards(), 0u);
  EXPECT_EQ(cudaFree(p), cudaSuccess);
  cudaGetLastError();
}

TEST(runtime, entry_point_equals_dlsym) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuMemCreate", &found, 12000, cudaEnableDefault, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
  EXPECT_EQ(found, dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemCreate"));
}

TEST(runtime, forked_child_is_not_initialised) {
  ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
  pid_t const child = fork();
  if (child == 0) {
    void* p = nullptr;
    _exit(static_cast<int>(cudaMalloc(&p, 100)));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), cudaErrorInitializationError);
}
