// Two GPUs in one process: peer access enabled before and after the blocks were made, copies from device to
// device, kernels that read and write the other's blocks, plain and stream-ordered, frees with the other
// device current, and access taken away again. Exits 77 with fewer than two devices that reach each other.
// One thread.
#include <algorithm>

#include "tests/gpu/kernels.cuh"

namespace {

using namespace programs;

constexpr std::size_t sizes[] = {4096, 1000 * 4, 1 << 20, 33 << 20};

struct side {
  int device = 0;
  cudaStream_t stream = nullptr;
  void* plain = nullptr;
  void* ordered = nullptr;
};

void make_blocks(side& on, std::size_t bytes, std::uint32_t value) {
  REQUIRE(cudaSetDevice(on.device));
  REQUIRE(counted_malloc(&on.plain, bytes));
  REQUIRE(counted_malloc_async(&on.ordered, bytes, on.stream));
  gpu::launch_fill(on.plain, bytes, value, on.stream);
  gpu::launch_fill(on.ordered, bytes, value + 1, on.stream);
  REQUIRE(cudaStreamSynchronize(on.stream));
}

// The program grants its default pool to the peer, as stream-ordered memory needs natively.
void share_pool(int owner, int peer) {
  cudaMemPool_t pool = nullptr;
  cudaMemAccessDesc grant{};
  grant.location.type = cudaMemLocationTypeDevice;
  grant.location.id = peer;
  grant.flags = cudaMemAccessFlagsProtReadWrite;
  REQUIRE(cudaDeviceGetDefaultMemPool(&pool, owner));
  REQUIRE(cudaMemPoolSetAccess(pool, &grant, 1));
}

void enable(side (&sides)[2]) {
  for (int i = 0; i < 2; ++i) {
    REQUIRE(cudaSetDevice(sides[i].device));
    REQUIRE(cudaDeviceEnablePeerAccess(sides[1 - i].device, 0));
    share_pool(sides[i].device, sides[1 - i].device);
  }
}

// Kernels on each device read the other's blocks, write them, and read what the owner then sees.
void cross(side (&sides)[2], std::size_t bytes, unsigned long long& wrong) {
  for (int i = 0; i < 2; ++i) {
    side const& own = sides[i];
    side const& peer = sides[1 - i];
    const auto theirs = static_cast<std::uint32_t>(10 * (1 - i) + 5);
    REQUIRE(cudaSetDevice(own.device));
    gpu::wrong_counter here;
    gpu::launch_count(peer.plain, bytes, theirs, 0, here.device(), own.stream);
    gpu::launch_count(peer.ordered, bytes, theirs + 1, 0, here.device(), own.stream);
    gpu::launch_fill(peer.plain, bytes, 99, own.stream);
    REQUIRE(cudaStreamSynchronize(own.stream));
    REQUIRE(cudaMemcpyPeer(own.plain, own.device, peer.plain, peer.device, bytes));
    REQUIRE(cudaDeviceSynchronize());  // the copy is not ordered before streams that do not block
    gpu::launch_count(own.plain, bytes, 99, 0, here.device(), own.stream);
    gpu::launch_fill(peer.plain, bytes, theirs, own.stream);
    gpu::launch_fill(own.plain, bytes, static_cast<std::uint32_t>(10 * i + 5), own.stream);
    wrong += here.read();
    here.release();
  }
}

}  // namespace

int main() {
  int devices = 0;
  int reaches[2] = {};
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 2) {
    std::printf("needs two GPUs, %d found\n", devices);
    return 77;
  }
  REQUIRE(cudaDeviceCanAccessPeer(&reaches[0], 0, 1));
  REQUIRE(cudaDeviceCanAccessPeer(&reaches[1], 1, 0));
  if (reaches[0] == 0 || reaches[1] == 0) {
    std::printf("the two GPUs cannot reach each other\n");
    return 77;
  }
  unsigned long long wrong = 0;
  side sides[2];
  for (int i = 0; i < 2; ++i) {
    sides[i].device = i;
    REQUIRE(cudaSetDevice(i));
    REQUIRE(cudaStreamCreateWithFlags(&sides[i].stream, cudaStreamNonBlocking));
  }
  for (int i = 0; i < 2; ++i) make_blocks(sides[i], sizes[2], static_cast<std::uint32_t>(10 * i + 5));
  enable(sides);  // for blocks that exist already
  for (std::size_t bytes : sizes) {
    cross(sides, std::min(bytes, sizes[2]), wrong);
    for (int i = 0; i < 2; ++i) {
      REQUIRE(cudaSetDevice(1 - i));  // the wrong device is current
      REQUIRE(counted_free(sides[i].plain));
      REQUIRE(counted_free_async(sides[i].ordered, sides[i].stream));
    }
    for (int i = 0; i < 2; ++i) make_blocks(sides[i], sizes[3], static_cast<std::uint32_t>(10 * i + 5));
  }
  cross(sides, sizes[3], wrong);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(cudaSetDevice(i));
    REQUIRE(counted_free(sides[i].plain));
    REQUIRE(counted_free(sides[i].ordered));
    REQUIRE(cudaDeviceDisablePeerAccess(1 - i));
    REQUIRE_CODE(cudaDeviceDisablePeerAccess(1 - i), cudaErrorPeerAccessNotEnabled);
    REQUIRE_CODE(cudaGetLastError(), cudaErrorPeerAccessNotEnabled);
    REQUIRE(cudaStreamDestroy(sides[i].stream));
  }
  std::printf("peers: %llu wrong words\n", wrong);
  counts.print();
  return wrong == 0 ? 0 : 1;
}
