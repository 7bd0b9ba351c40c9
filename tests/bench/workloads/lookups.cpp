// What a program pays to ask about an address: cudaPointerGetAttributes and cuMemGetAddressRange of an
// address inside a block, with 10 to 10^5 live blocks of 1 KiB. Communication libraries and frameworks ask
// for each buffer they are given. One thread.
#include <cuda.h>

#include "tests/bench/workloads/workloads.hpp"

void bench::lookups(allocator& memory, const options& wanted) {
  const stream own;
  const auto address_range =
      driver_function<CUresult (*)(CUdeviceptr*, size_t*, CUdeviceptr)>("cuMemGetAddressRange", 3020);
  for (std::size_t count = 10; count <= std::min<std::size_t>(wanted.largest, 100000); count *= 10) {
    std::vector<void*> live(count);
    for (void*& each : live) each = memory.allocate(1024, own.get());
    REQUIRE(cudaDeviceSynchronize());
    programs::sequence random(3);
    cudaPointerAttributes about;
    emit("lookups", std::to_string(count) + " live blocks", "cudaPointerGetAttributes",
         median_of_batches(wanted.seconds * 1e9,
                           [&] {
                             REQUIRE(cudaPointerGetAttributes(
                                 &about, static_cast<char*>(live[random.next(count)]) + 100));
                           }),
         "ns");
    CUdeviceptr base = 0;
    size_t size = 0;
    emit("lookups", std::to_string(count) + " live blocks", "cuMemGetAddressRange",
         median_of_batches(wanted.seconds * 1e9,
                           [&] {
                             address_range(&base, &size,
                                           reinterpret_cast<CUdeviceptr>(live[random.next(count)]) + 100);
                           }),
         "ns");
    for (void* each : live) memory.free(each, 1024, own.get());
  }
}
