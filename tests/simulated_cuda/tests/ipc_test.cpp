// Legacy IPC between two processes: the handle's layout, a piece by offset and size, and what is refused.
// The importer is this program again, started with the handle in the environment.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fixture.hpp"

using ipc = simulated_test;

namespace {

// Runs the test DISABLED_importer of this program; its exit status.
int import_elsewhere(CUipcMemHandle const& handle) {
  std::string text;
  for (char byte : handle.reserved) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    text += digits;
  }
  setenv("SIMULATED_TEST_HANDLE", text.c_str(), 1);
  pid_t const child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "importer", "--gtest_also_run_disabled_tests",
          "--gtest_filter=ipc.DISABLED_importer", static_cast<char*>(nullptr));
    _exit(126);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}

}  // namespace

TEST_F(ipc, DISABLED_importer) {
  char const* const text = std::getenv("SIMULATED_TEST_HANDLE");
  ASSERT_NE(text, nullptr);
  CUipcMemHandle handle = {};
  for (int i = 0; i < CU_IPC_HANDLE_SIZE; ++i) {
    handle.reserved[i] = static_cast<char>(std::stoi(std::string(text + 2 * i, 2), nullptr, 16));
  }
  CUdeviceptr p = 0, again = 0, base = 0;
  ASSERT_EQ(cuIpcOpenMemHandle(&p, handle, 0), CUDA_ERROR_INVALID_VALUE) << "the flag is required";
  ASSERT_EQ(cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
  EXPECT_EQ(again, p);
  EXPECT_EQ(cuIpcCloseMemHandle(p), CUDA_SUCCESS);
  size_t bytes = 0;
  ASSERT_EQ(cuMemGetAddressRange(&base, &bytes, p), CUDA_SUCCESS);
  EXPECT_EQ(base, p);
  EXPECT_EQ(bytes, 1000u);
  std::vector<char> seen(1000);
  ASSERT_EQ(cuMemcpyDtoH(seen.data(), p, 1000), CUDA_SUCCESS);
  EXPECT_EQ(seen, std::vector<char>(1000, 7));
  ASSERT_EQ(cuMemsetD8(p, 8, 1000), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcCloseMemHandle(p), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcCloseMemHandle(p), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ipc, two_small_blocks_differ_in_the_offset_only) {
  CUdeviceptr p = 0, q = 0;
  CUipcMemHandle first = {}, second = {};
  cuMemAlloc(&p, 1000);
  cuMemAlloc(&q, 1000);
  ASSERT_EQ(cuIpcGetMemHandle(&first, p), CUDA_SUCCESS);
  ASSERT_EQ(cuIpcGetMemHandle(&second, q), CUDA_SUCCESS);
  std::uint64_t size = 0;
  std::uint32_t from = 0, to = 0;
  std::memcpy(&size, first.reserved + 16, 8);
  std::memcpy(&from, first.reserved + 28, 4);
  std::memcpy(&to, second.reserved + 28, 4);
  EXPECT_EQ(size, 1000u);
  EXPECT_EQ(to - from, q - p);
  std::memcpy(second.reserved + 28, first.reserved + 28, 4);
  EXPECT_EQ(std::memcmp(&first, &second, sizeof first), 0);
  CUdeviceptr mapped = 0;
  EXPECT_EQ(cuIpcOpenMemHandle(&mapped, first, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ipc, another_process_sees_and_writes_a_piece) {
  CUdeviceptr block = 0;
  ASSERT_EQ(cuMemAlloc(&block, 8u << 20), CUDA_SUCCESS);
  std::uint32_t const offset = 3u << 20;
  ASSERT_EQ(cuMemsetD8(block + offset, 7, 1000), CUDA_SUCCESS);
  cuCtxSynchronize();
  CUipcMemHandle handle = {};
  ASSERT_EQ(cuIpcGetMemHandle(&handle, block), CUDA_SUCCESS);
  std::uint64_t const bytes = 1000;
  std::memcpy(handle.reserved + 16, &bytes, 8);
  std::memcpy(handle.reserved + 28, &offset, 4);
  ASSERT_EQ(import_elsewhere(handle), 0);
  unsigned char seen[3] = {};
  cuMemcpyDtoH(seen, block + offset + 998, 3);
  EXPECT_EQ(seen[0], 8);
  EXPECT_EQ(seen[1], 8);
  EXPECT_EQ(seen[2], 0);
}
