// Contexts of the driver API that end with blocks alive: made and destroyed, and the primary one released to
// zero and retained again. Old addresses are refused afterwards, new blocks hold their data. Run plain and
// preloaded by the integration and GPU tests, on old drivers too. One thread.
#include "tests/programs/driver_support.hpp"

namespace {

using namespace programs;

void check(CUdeviceptr block, std::size_t bytes, unsigned char value, checksum& sum) {
  std::vector<unsigned char> host(bytes);
  REQUIRE(cuMemsetD8(block, value, bytes));
  REQUIRE(cuMemcpyDtoH(host.data(), block, bytes));
  REQUIRE_ALL(host.data(), bytes, value);
  sum.add(host.data(), bytes);
}

// Returns a block that dies with the context.
CUdeviceptr work(unsigned char value, checksum& sum) {
  const CUdeviceptr kept = make(300'000);
  const CUdeviceptr gone = make(5 << 20);
  check(kept, 300'000, value, sum);
  check(gone, 5 << 20, value, sum);
  REQUIRE(drop(gone));
  return kept;
}

// An address of a context that is gone, freed before the present one has memory.
void refuse(CUdeviceptr old) {
  if (old != 0) std::printf("free of a dead block: %d\n", static_cast<int>(drop(old)));
}

}  // namespace

int main() {
  CUdevice device = 0;
  CUdeviceptr old = 0;
  checksum sum;
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGet(&device, 0));
  for (int round = 0; round < 10; ++round) {
    CUcontext context = nullptr;
    REQUIRE(cuCtxCreate_v2(&context, 0, device));
    refuse(old);
    old = work(static_cast<unsigned char>(round), sum);
    REQUIRE(cuCtxDestroy(context));
  }
  for (int round = 0; round < 10; ++round) {
    CUcontext context = nullptr;
    CUcontext again = nullptr;
    REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
    REQUIRE(cuDevicePrimaryCtxRetain(&again, device));
    REQUIRE(cuCtxSetCurrent(context));
    refuse(old);
    old = work(static_cast<unsigned char>(round), sum);
    REQUIRE(cuDevicePrimaryCtxRelease(device));
    check(old, 300'000, 0x5a, sum);  // one reference is left
    REQUIRE(cuCtxSetCurrent(nullptr));
    REQUIRE(cuDevicePrimaryCtxRelease(device));
  }
  std::printf("checksum %016llx\n", (unsigned long long)sum.value());
  counts.print();
}
