// Memory that was freed, and whose work is done, serves the next request although a kernel has begun since
// that does not end before: nearly all of the device is freed in the order of a stream of each kind, or by
// cudaFree, then a kernel spins, then most of that memory is asked for again by cudaMallocAsync, cudaMalloc
// and cuMemCreate. Natively none waits. Prints codes, whether each came at once, and whether the kernel still
// ran. Alone on its device.
#include <cuda.h>

#include <chrono>
#include <string>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;
using namespace std::chrono_literals;

constexpr std::size_t gib = std::size_t{1} << 30;

__global__ void spin(int const volatile* stop) {
  while (*stop == 0) {
  }
}
__global__ void touch(char* memory) {
  *memory = 1;
}

cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t made = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&made, flags));
  return made;
}

std::size_t nearly_all() {
  std::size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total));
  return free / gib - 2;
}

void free_in_order(std::size_t bytes, cudaStream_t freeing) {
  void* block = nullptr;
  REQUIRE(cudaMallocAsync(&block, bytes, freeing));
  touch<<<1, 1, 0, freeing>>>(static_cast<char*>(block));
  REQUIRE(cudaFreeAsync(block, freeing));
  REQUIRE(cudaStreamSynchronize(freeing));
}
void free_plainly(std::size_t bytes, cudaStream_t used) {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, bytes));
  touch<<<1, 1, 0, used>>>(static_cast<char*>(block));
  REQUIRE(cudaFree(block));
}

}  // namespace

int main() {
  cudaStream_t const busy = make_stream(), freeing = make_stream(), asking = make_stream();
  int volatile* stop = nullptr;
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, sizeof(int)));
  stop = static_cast<int volatile*>(pinned);
  *stop = 1;
  spin<<<1, 1, 0, busy>>>(stop);  // loaded, before one does not end
  touch<<<1, 1, 0, asking>>>(static_cast<char*>(pinned));
  REQUIRE(cudaDeviceSynchronize());
  auto const ask = [&](char const* name, auto&& free, auto&& request, auto&& give) {
    std::size_t const all = nearly_all();
    *stop = 0;
    free(all * gib, freeing);
    spin<<<1, 1, 0, busy>>>(stop);
    auto const begin = std::chrono::steady_clock::now();
    int const code = request((all - 4) * gib);
    bool const at_once = std::chrono::steady_clock::now() - begin < 5s;
    std::printf("%s: code %d, %s, the kernel %s\n", name, code, at_once ? "at once" : "late",
                cudaStreamQuery(busy) == cudaErrorNotReady ? "runs" : "is over");
    *stop = 1;
    REQUIRE(cudaDeviceSynchronize());
    if (code == 0) give();
    REQUIRE(cudaDeviceSynchronize());
  };
  void* block = nullptr;
  CUmemGenericAllocationHandle handle = 0;
  auto const in_order = [&](std::size_t bytes) {
    int const code = cudaMallocAsync(&block, bytes, asking);
    if (code != 0) return code;
    touch<<<1, 1, 0, asking>>>(static_cast<char*>(block));
    return static_cast<int>(cudaStreamSynchronize(asking));
  };
  auto const plain = [&](std::size_t bytes) { return static_cast<int>(cudaMalloc(&block, bytes)); };
  auto const create = [&](std::size_t bytes) {
    CUmemAllocationProp wanted{};
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return static_cast<int>(cuMemCreate(&handle, bytes, &wanted, 0));
  };
  auto const give_block = [&] { REQUIRE(cudaFree(block)); };
  auto const give_handle = [&] { REQUIRE(cuMemRelease(handle)); };
  ask("freed in order, cudaMallocAsync", free_in_order, in_order, give_block);
  ask("freed in order, cudaMalloc", free_in_order, plain, give_block);
  ask("freed in order, cuMemCreate", free_in_order, create, give_handle);
  struct {
    char const* name;
    cudaStream_t stream;
  } const others[] = {{"freed on a blocking stream", make_stream(cudaStreamDefault)},
                      {"freed on the legacy stream", cudaStreamLegacy},
                      {"freed on the thread's stream", cudaStreamPerThread}};
  for (auto const& each : others) {
    auto const free = [&](std::size_t bytes, cudaStream_t) { free_in_order(bytes, each.stream); };
    ask((std::string(each.name) + ", cudaMallocAsync").c_str(), free, in_order, give_block);
    ask((std::string(each.name) + ", cudaMalloc").c_str(), free, plain, give_block);
  }
  ask("freed by cudaFree, cudaMalloc", free_plainly, plain, give_block);
  ask("freed by cudaFree, cuMemCreate", free_plainly, create, give_handle);
  std::puts("done");
}
