// An importer that keeps mappings open, as UCX and Open MPI do: by base address, and trusted while the
// BUFFER_ID of the exporter's block is the one it was opened for. The exporter allocates, stamps, exports and
// frees blocks of many sizes, so that one begins where others began or within them. Prints how many imports
// were not what was stamped, and how many blocks had the BUFFER_ID of another. Run plain and preloaded by the
// integration and GPU tests.
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

struct message {
  cudaIpcMemHandle_t handle;
  std::uint64_t base;
  std::size_t bytes;
  std::uint64_t id;
  std::uint32_t value;
};

std::vector<std::uint32_t> stamped(std::size_t bytes, std::uint32_t value) {
  std::vector<std::uint32_t> words(bytes / sizeof value);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = value * 100'003 + static_cast<std::uint32_t>(i);
  return words;
}

// What was opened for the blocks of the exporter, by the base there.
class mappings {
 public:
  void* of(const message& block) {
    const auto after = open_.upper_bound(block.base);
    if (after != open_.begin()) {
      const auto& [base, known] = *std::prev(after);
      if (block.base < base + known.bytes && known.id == block.id) return known.address;
    }
    close(block.base, block.bytes);
    void* address = nullptr;
    REQUIRE(cudaIpcOpenMemHandle(&address, block.handle, cudaIpcMemLazyEnablePeerAccess));
    open_[block.base] = {address, block.bytes, block.id};
    return address;
  }

 private:
  struct mapping {
    void* address;
    std::size_t bytes;
    std::uint64_t id;
  };

  void close(std::uint64_t base, std::size_t bytes) {
    for (auto it = open_.begin(); it != open_.end();) {
      const bool within = base < it->first + it->second.bytes && it->first < base + bytes;
      if (within) REQUIRE(cudaIpcCloseMemHandle(it->second.address));
      it = within ? open_.erase(it) : std::next(it);
    }
  }

  std::map<std::uint64_t, mapping> open_;
};

int import(int in, int out, int rounds) {
  mappings known;
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    message block{};
    transfer(false, in, &block, sizeof block);
    std::vector<std::uint32_t> words(block.bytes / sizeof(std::uint32_t));
    const auto code = cudaMemcpy(words.data(), known.of(block), block.bytes, cudaMemcpyDeviceToHost);
    wrong += code != cudaSuccess || words != stamped(block.bytes, block.value);
    (void)cudaGetLastError();
    char done = 1;
    transfer(true, out, &done, 1);
  }
  transfer(true, out, &wrong, sizeof wrong);
  return 0;
}

struct live_block {
  void* address;
  std::uint64_t id;
};

std::uint64_t id_of(const void* address) {
  unsigned long long id = 0;
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  REQUIRE(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
  return id;
}

void export_to(int out, int in, int rounds) {
  sequence numbers(7);
  std::set<std::uint64_t> ids;
  std::vector<live_block> alive;
  int changed = 0;
  for (int round = 0; round < rounds; ++round) {
    message block{};
    block.bytes = (std::size_t{64} << 10) * (1 + numbers.next(round % 3 == 0 ? 48 : 6));
    block.value = static_cast<std::uint32_t>(round);
    void* address = nullptr;
    REQUIRE(counted_malloc(&address, block.bytes));
    const auto words = stamped(block.bytes, block.value);
    REQUIRE(cudaMemcpy(address, words.data(), block.bytes, cudaMemcpyHostToDevice));
    block.base = reinterpret_cast<std::uint64_t>(address);
    block.id = id_of(address);
    changed += id_of(static_cast<char*>(address) + block.bytes / 2) != block.id;
    ids.insert(block.id);
    REQUIRE(cudaIpcGetMemHandle(&block.handle, address));
    transfer(true, out, &block, sizeof block);
    char done = 0;
    transfer(false, in, &done, 1);
    alive.push_back({address, block.id});
    if (alive.size() < 3) continue;
    const std::size_t which = numbers.next(alive.size());
    changed += id_of(alive[which].address) != alive[which].id;
    REQUIRE(counted_free(alive[which].address));
    alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(which));
  }
  for (const live_block& each : alive) REQUIRE(counted_free(each.address));
  int wrong = 0;
  transfer(false, in, &wrong, sizeof wrong);
  std::printf("%d blocks: %d imports were wrong, %zu shared a BUFFER_ID, %d changed it\n", rounds, wrong,
              static_cast<std::size_t>(rounds) - ids.size(), changed);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 200;
  if (argc == 4) return import(std::atoi(argv[2]), std::atoi(argv[3]), rounds);
  int there[2];
  int back[2];
  REQUIRE(pipe(there));
  REQUIRE(pipe(back));
  const pid_t child = fork();
  if (child == 0) {
    close(there[1]);
    close(back[0]);
    const std::string in = std::to_string(there[0]);
    const std::string out = std::to_string(back[1]);
    execl(argv[0], argv[0], std::to_string(rounds).c_str(), in.c_str(), out.c_str(),
          static_cast<char*>(nullptr));
    _exit(127);
  }
  close(there[0]);
  close(back[1]);
  export_to(there[1], back[0], rounds);
  int status = 0;
  REQUIRE_CODE(waitpid(child, &status, 0), child);
  std::printf("importer ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  counts.print();
}
