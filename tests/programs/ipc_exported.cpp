// Exports blocks by legacy IPC handles to a child, which opens them all and keeps them open; frees them, asks
// for more of the same sizes in both ways, and fills those: says how many bytes of the exported ones the
// child sees changed. Natively a small block shares a driver block with others and is used again at once, so
// only the preloaded run is judged (unrouted.py). With an argument: exports that many temporaries of each of
// several sizes, one after the other, as a transport does (UCX, Open MPI), beside blocks that stay. One
// thread in each process.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

constexpr std::size_t sizes[] = {1000, 70'000, std::size_t{3} << 20};
constexpr int of_each = 3;
constexpr unsigned char stamp = 0x11;

template <typename Value>
void send(int to, const Value& value) {
  if (write(to, &value, sizeof value) != sizeof value) std::_Exit(4);
}
template <typename Value>
Value receive(int from) {
  Value value{};
  if (read(from, &value, sizeof value) != sizeof value) std::_Exit(4);
  return value;
}

[[noreturn]] void import(int from, int to) {
  struct opened {
    void* block;
    std::size_t bytes;
  };
  std::vector<opened> all;
  for (const std::size_t bytes : sizes) {
    for (int i = 0; i < of_each; ++i) {
      const auto handle = receive<cudaIpcMemHandle_t>(from);
      void* block = nullptr;
      REQUIRE(cudaIpcOpenMemHandle(&block, handle, cudaIpcMemLazyEnablePeerAccess));
      all.push_back({block, bytes});
    }
  }
  send(to, 'o');
  receive<char>(from);
  long changed = 0;
  for (const opened& each : all) {
    std::vector<unsigned char> host(each.bytes);
    REQUIRE(cudaMemcpy(host.data(), each.block, each.bytes, cudaMemcpyDeviceToHost));
    for (const unsigned char byte : host) changed += byte != stamp;
    REQUIRE(cudaIpcCloseMemHandle(each.block));
  }
  send(to, changed);
  std::_Exit(0);
}

void keep_open() {
  int down[2], up[2];
  if (pipe(down) != 0 || pipe(up) != 0) std::_Exit(4);
  if (fork() == 0) import(down[0], up[1]);
  std::vector<void*> exported;
  for (const std::size_t bytes : sizes) {
    for (int i = 0; i < of_each; ++i) {
      void* block = nullptr;
      cudaIpcMemHandle_t handle;
      REQUIRE(cudaMalloc(&block, bytes));
      REQUIRE(cudaMemset(block, stamp, bytes));
      REQUIRE(cudaIpcGetMemHandle(&handle, block));
      exported.push_back(block);
      REQUIRE(cudaDeviceSynchronize());
      send(down[1], handle);
    }
  }
  receive<char>(up[0]);
  for (void* each : exported) REQUIRE(cudaFree(each));
  for (int round = 0; round < 40; ++round) {
    for (const std::size_t bytes : sizes) {
      void* block = nullptr;
      REQUIRE(round % 2 == 0 ? cudaMalloc(&block, bytes) : cudaMallocAsync(&block, bytes, nullptr));
      REQUIRE(cudaMemset(block, 0xee, bytes));
    }
  }
  REQUIRE(cudaDeviceSynchronize());
  send(down[1], 'c');
  std::printf("%ld bytes changed under an importer\n", receive<long>(up[0]));
  wait(nullptr);
}

void temporaries(int rounds) {
  std::vector<void*> lasting;
  for (int round = 0; round < rounds; ++round) {
    for (const std::size_t bytes : {std::size_t{100'000}, std::size_t{1} << 20, std::size_t{64} << 20}) {
      void* block = nullptr;
      cudaIpcMemHandle_t handle;
      REQUIRE(counted_malloc(&block, bytes));
      REQUIRE(cudaIpcGetMemHandle(&handle, block));
      if (round % 100 == 0) {
        lasting.push_back(nullptr);
        REQUIRE(counted_malloc(&lasting.back(), 5000));
      }
      REQUIRE(counted_free(block));
    }
  }
  for (void* each : lasting) REQUIRE(counted_free(each));
  std::printf("%d temporaries of each size were exported\n", rounds);
  counts.print();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    temporaries(std::atoi(argv[1]));
  } else {
    keep_open();
  }
}
