// Two devices in one process: access enabled for blocks that exist and for blocks made later, copies from
// device to device, work of each device on the other's blocks, frees with the other device current, and
// access taken away; before that, stream-ordered blocks of default pools that the program shares. `first`:
// access is enabled before anything else. Exits 77 with fewer than two devices. Run plain and preloaded by
// the integration and GPU tests. One thread.
#include "tests/programs/support.hpp"
#include "tests/simulated_cuda/simulated.h"

namespace {

using namespace programs;

struct side {
  cudaStream_t stream = nullptr;
  void* plain = nullptr;
  void* ordered = nullptr;
};

constexpr std::size_t bytes = 1 << 20;

void make_blocks(side (&sides)[2], bool plain, bool ordered) {
  for (int device = 0; device < 2; ++device) {
    side& own = sides[device];
    REQUIRE(cudaSetDevice(device));
    if (plain) {
      REQUIRE(counted_malloc(&own.plain, bytes));
      REQUIRE(cudaMemset(own.plain, device + 1, bytes));
    }
    if (!ordered) continue;
    REQUIRE(counted_malloc_async(&own.ordered, bytes, own.stream));
    REQUIRE(cudaMemsetAsync(own.ordered, device + 11, bytes, own.stream));
    REQUIRE(cudaStreamSynchronize(own.stream));
  }
}

// What a kernel of the other device would touch; on a real driver only the copies are made.
void touch_and_copy(side (&sides)[2], checksum& sum) {
  for (int device = 0; device < 2; ++device) {
    side const& own = sides[device];
    side const& peer = sides[1 - device];
    REQUIRE(cudaSetDevice(device));
    for (void* block : {peer.plain, peer.ordered}) {
      if (block == nullptr || !simulated_control::present()) continue;
      simulated_access const access = {reinterpret_cast<CUdeviceptr>(block), bytes, 1};
      REQUIRE(simulated_control::launch(reinterpret_cast<CUstream>(own.stream), &access, 1, 1000));
    }
    REQUIRE(cudaStreamSynchronize(own.stream));
    if (peer.plain == nullptr) continue;
    verify_fill(peer.plain, bytes, static_cast<unsigned char>(2 - device), sum);
    void* copy = nullptr;
    REQUIRE(counted_malloc(&copy, bytes));
    REQUIRE(cudaMemcpy(copy, peer.plain, bytes, cudaMemcpyDeviceToDevice));
    verify_fill(copy, bytes, static_cast<unsigned char>(2 - device), sum);
    REQUIRE(counted_free(copy));
  }
}

void free_blocks(side (&sides)[2]) {
  for (int device = 0; device < 2; ++device) {
    side& own = sides[device];
    REQUIRE(cudaSetDevice(1 - device));  // the other one is current
    if (own.plain != nullptr) REQUIRE(counted_free(own.plain));
    if (own.ordered != nullptr) REQUIRE(counted_free_async(own.ordered, own.stream));
    own.plain = own.ordered = nullptr;
  }
}

void share_default_pool(int owner) {
  cudaMemPool_t pool = nullptr;
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = 1 - owner;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  REQUIRE(cudaDeviceGetDefaultMemPool(&pool, owner));
  REQUIRE(cudaMemPoolSetAccess(pool, &access, 1));
}

void enable() {
  for (int device = 0; device < 2; ++device) {
    REQUIRE(cudaSetDevice(device));
    REQUIRE(cudaDeviceEnablePeerAccess(1 - device, 0));
    REQUIRE_CODE(cudaDeviceEnablePeerAccess(1 - device, 0), cudaErrorPeerAccessAlreadyEnabled);
    REQUIRE_CODE(cudaGetLastError(), cudaErrorPeerAccessAlreadyEnabled);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bool const first = argc > 1 && std::strcmp(argv[1], "first") == 0;
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices));
  if (devices < 2) {
    std::printf("needs two devices, %d found\n", devices);
    return 77;
  }
  checksum sum;
  side sides[2];
  for (int device = 0; device < 2; ++device) {
    REQUIRE(cudaSetDevice(device));
    REQUIRE(cudaStreamCreateWithFlags(&sides[device].stream, cudaStreamNonBlocking));
  }
  if (first) enable();
  // A shared default pool needs no access between the contexts.
  for (int owner = 0; owner < 2; ++owner) share_default_pool(owner);
  make_blocks(sides, false, true);
  touch_and_copy(sides, sum);
  free_blocks(sides);
  make_blocks(sides, true, false);
  if (!first) enable();
  touch_and_copy(sides, sum);
  free_blocks(sides);
  for (int round = 0; round < 5; ++round) {
    make_blocks(sides, true, true);
    touch_and_copy(sides, sum);
    free_blocks(sides);
  }
  for (int device = 0; device < 2; ++device) {
    REQUIRE(cudaSetDevice(device));
    REQUIRE(cudaDeviceDisablePeerAccess(1 - device));
    REQUIRE_CODE(cudaDeviceDisablePeerAccess(1 - device), cudaErrorPeerAccessNotEnabled);
    REQUIRE_CODE(cudaGetLastError(), cudaErrorPeerAccessNotEnabled);
    REQUIRE(cudaStreamDestroy(sides[device].stream));
  }
  std::printf("peers checksum %016llx\n", (unsigned long long)sum.value());
  counts.print();
}
