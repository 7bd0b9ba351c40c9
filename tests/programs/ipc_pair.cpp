// Two processes share device memory by the legacy handles: the exporter sends handles of blocks that are
// small (they share a driver block natively, or a segment under a pool), middle and large; the importer
// checks every byte, writes a new pattern, closes; the exporter checks that and frees. "plain-importer" drops
// LD_PRELOAD for the importer, so that an importer without the library must work as well. Run plain and
// preloaded by the integration and GPU tests.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

constexpr std::size_t sizes[] = {1000, 1000, 513, 70000, 1 << 20, (8 << 20) + 77, 1000};

struct message {
  cudaIpcMemHandle_t handle;
  std::size_t bytes;
  unsigned char value;
};

int import(int in, int out) {
  checksum sum;
  for (std::size_t index = 0; index < std::size(sizes); ++index) {
    message shared{};
    transfer(false, in, &shared, sizeof shared);
    void* mapped = nullptr;
    REQUIRE(cudaIpcOpenMemHandle(&mapped, shared.handle, cudaIpcMemLazyEnablePeerAccess));
    verify_fill(mapped, shared.bytes, shared.value, sum);
    REQUIRE(cudaMemset(mapped, shared.value + 100, shared.bytes));
    REQUIRE(cudaDeviceSynchronize());
    REQUIRE(cudaIpcCloseMemHandle(mapped));
    char done = 1;
    transfer(true, out, &done, 1);
  }
  std::printf("importer checksum %016llx\n", (unsigned long long)sum.value());
  std::fflush(stdout);
  return 0;
}

std::uint64_t export_to(int out, int in) {
  checksum sum;
  std::vector<void*> blocks(std::size(sizes));
  for (std::size_t index = 0; index < std::size(sizes); ++index) {
    REQUIRE(counted_malloc(&blocks[index], sizes[index]));
    REQUIRE(cudaMemset(blocks[index], static_cast<int>(index + 1), sizes[index]));
  }
  REQUIRE(cudaDeviceSynchronize());
  for (std::size_t index = 0; index < std::size(sizes); ++index) {
    message shared{};
    shared.bytes = sizes[index];
    shared.value = static_cast<unsigned char>(index + 1);
    REQUIRE(cudaIpcGetMemHandle(&shared.handle, blocks[index]));
    transfer(true, out, &shared, sizeof shared);
    char done = 0;
    transfer(false, in, &done, 1);
    // The neighbours must be as they were; the block itself holds what the importer wrote.
    for (std::size_t other = 0; other < std::size(sizes); ++other)
      verify_fill(blocks[other], sizes[other],
                  static_cast<unsigned char>(other + 1 + (other <= index ? 100 : 0)), sum);
  }
  for (void* block : blocks) REQUIRE(counted_free(block));
  return sum.value();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "import") == 0) return import(std::atoi(argv[2]), std::atoi(argv[3]));
  int there[2];
  int back[2];
  REQUIRE(pipe(there));
  REQUIRE(pipe(back));
  const pid_t child = fork();
  if (child == 0) {
    if (argc > 1 && std::strcmp(argv[1], "plain-importer") == 0) unsetenv("LD_PRELOAD");
    close(there[1]);
    close(back[0]);
    const std::string in = std::to_string(there[0]);
    const std::string out = std::to_string(back[1]);
    execl(argv[0], argv[0], "import", in.c_str(), out.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(there[0]);
  close(back[1]);
  const std::uint64_t sum = export_to(there[1], back[0]);
  int status = 0;
  REQUIRE_CODE(waitpid(child, &status, 0), child);
  // Only now: the two lines of the two processes must come in one order.
  std::printf("exporter checksum %016llx\n", (unsigned long long)sum);
  std::printf("importer ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  counts.print();
}
