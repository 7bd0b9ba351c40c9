// Pitched memory: rows of many widths, element sizes and heights, by cudaMallocPitch, cudaMalloc3D and
// cuMemAllocPitch, each shape several times over and held a while, so that what serves the later ones is
// asked as well as what serves the first. Prints each pitch, how the base is aligned, the range that the
// driver tells, and every refusal's code; fills and reads rows. Run plain and preloaded by the integration
// and GPU tests. One thread.
#include <cuda.h>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

constexpr int rounds = 4;
constexpr std::size_t widths[] = {1, 4, 100, 511, 512, 513, 1000, 2048, 4096, 5000, 16385, 100'000};
constexpr std::size_t heights[] = {1, 2, 30, 64};

struct plane {
  CUdeviceptr base = 0;
  std::size_t pitch = 0;
  std::size_t width = 0;
  std::size_t height = 0;
};

unsigned char stamp_of(const plane& p) {
  return static_cast<unsigned char>(p.width * 31 + p.height * 7);
}

void fill(const plane& p) {
  REQUIRE(cudaMemset2D(reinterpret_cast<void*>(p.base), p.pitch, stamp_of(p), p.width, p.height));
}

void verify(const plane& p, checksum& sum) {
  std::vector<unsigned char> host(p.width * p.height);
  REQUIRE(cudaMemcpy2D(host.data(), p.width, reinterpret_cast<void*>(p.base), p.pitch, p.width, p.height,
                       cudaMemcpyDeviceToHost));
  REQUIRE_ALL(host.data(), host.size(), stamp_of(p));
  sum.add(host.data(), host.size());
}

void show(const char* how, const plane& p) {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  REQUIRE(cuMemGetAddressRange(&base, &bytes, p.base + p.pitch * p.height - 1));
  std::printf("%s %zu x %zu: pitch %zu, base %% 512 = %llu, range %+lld, %zu bytes\n", how, p.width, p.height,
              p.pitch, (unsigned long long)(p.base % 512), static_cast<long long>(base - p.base), bytes);
}

plane of_driver(std::size_t width, std::size_t height, unsigned element) {
  plane p{.width = width, .height = height};
  REQUIRE(cuMemAllocPitch(&p.base, &p.pitch, width, height, element));
  return p;
}

plane of_runtime(std::size_t width, std::size_t height) {
  plane p{.width = width, .height = height};
  void* base = nullptr;
  REQUIRE(cudaMallocPitch(&base, &p.pitch, width, height));
  p.base = reinterpret_cast<CUdeviceptr>(base);
  return p;
}

plane of_volume(std::size_t width, std::size_t height, std::size_t depth) {
  cudaPitchedPtr made{};
  REQUIRE(cudaMalloc3D(&made, cudaExtent{width, height, depth}));
  REQUIRE_CODE(made.xsize == width && made.ysize == height, 1);
  return {reinterpret_cast<CUdeviceptr>(made.ptr), made.pitch, width, height * depth};
}

void refusals() {
  struct attempt {
    const char* what;
    std::size_t width, height;
    unsigned element;
  };
  constexpr attempt attempts[] = {{"no width", 0, 10, 4},
                                  {"no height", 100, 0, 4},
                                  {"element 0", 100, 10, 0},
                                  {"element 1", 100, 10, 1},
                                  {"element 3", 100, 10, 3},
                                  {"element 32", 100, 10, 32},
                                  {"too much", 1 << 30, 1 << 14, 4},
                                  {"far too much", 1ull << 40, 1ull << 40, 4}};
  for (const attempt& a : attempts) {
    for (int again = 0; again < 2; ++again) {  // the second time the shape might be taken for known
      CUdeviceptr base = 0;
      std::size_t pitch = 0;
      const CUresult code = cuMemAllocPitch(&base, &pitch, a.width, a.height, a.element);
      std::printf("%s: code %d\n", a.what, code);
    }
  }
  CUdeviceptr base = 0;
  std::size_t pitch = 0;
  const CUresult no_result = cuMemAllocPitch(nullptr, &pitch, 100, 10, 4);
  const CUresult no_pitch = cuMemAllocPitch(&base, nullptr, 100, 10, 4);
  std::printf("no place for the address: code %d; for the pitch: code %d\n", no_result, no_pitch);
}

}  // namespace

int main() {
  REQUIRE(cudaFree(nullptr));
  checksum sum;
  for (int round = 0; round < rounds; ++round) {
    std::vector<plane> held;
    for (std::size_t width : widths) {
      for (std::size_t height : heights) {
        for (unsigned element : {4u, 8u, 16u}) {
          held.push_back(of_driver(width, height, element));
          show("driver", held.back());
        }
        held.push_back(of_runtime(width, height));
        show("runtime", held.back());
        held.push_back(of_volume(width, height, 3));
        show("volume", held.back());
      }
    }
    for (const plane& p : held) fill(p);
    REQUIRE(cudaDeviceSynchronize());
    for (const plane& p : held) verify(p, sum);
    for (std::size_t i = 0; i < held.size(); ++i) {  // each way of a free
      void* const base = reinterpret_cast<void*>(held[i].base);
      if (i % 5 == 0) {
        REQUIRE(cuMemFree(held[i].base));
      } else if (i % 2 == 0) {
        REQUIRE(cudaFree(base));
      } else {
        REQUIRE(cudaFreeAsync(base, nullptr));
      }
    }
    REQUIRE(cudaDeviceSynchronize());
  }
  refusals();
  std::printf("sum %llu\n", (unsigned long long)sum.value());
}
