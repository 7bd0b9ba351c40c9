// See tests/integration/random/device_work.hpp. The kernels of random_kernels.cu lie in this program as a
// file; each context loads them, and counts for itself what they find.
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "tests/integration/random/device_work.hpp"
#include "tests/integration/random/world.hpp"

asm(".section .rodata\n.balign 64\n.global random_kernels\nrandom_kernels:\n.incbin \"" RANDOM_KERNELS
    "\"\n.previous\n");
extern "C" char const random_kernels[];

namespace random_program {

namespace {

struct found_words {
  unsigned long long count;
  unsigned long long address;
  unsigned wanted, seen;
};

std::atomic<unsigned long long> all{0};
std::atomic<int> told{0};

}  // namespace

bool device_work::on_a_gpu() {
  return true;
}

// Functions are loaded with their module, not at their first launch: that may be in a capture.
void device_work::prepare() {
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
}

void device_work::open() {
  std::size_t bytes = 0;
  CHECK(cuModuleLoadData(&code_, random_kernels));
  CHECK(cuModuleGetFunction(&stamp_, code_, "stamp"));
  CHECK(cuModuleGetFunction(&look_, code_, "look"));
  CHECK(cuModuleGetGlobal(&found_, &bytes, code_, "found"));
}

void device_work::close() {
  found_words seen{};
  CHECK(cuMemcpyDtoH(&seen, found_, sizeof seen));
  if (seen.count != 0 && told++ < 5) {
    std::printf("%llu wrong words, the first at %llx: %08x, not %08x\n", seen.count, seen.address, seen.seen,
                seen.wanted);
  }
  all += seen.count;
  CHECK(cuModuleUnload(code_));
}

static CUresult launch(CUfunction what, block const& b, CUstream on, unsigned nanoseconds) {
  CUdeviceptr address = b.address;
  unsigned long long words = b.bytes / 4, wait = nanoseconds;
  unsigned value = b.stamp;
  if (words == 0) return CUDA_SUCCESS;
  void* arguments[] = {&address, &words, &value, &wait};
  return cuLaunchKernel(what, words < 8192 ? 1 : 32, 1, 1, 256, 1, 1, 0, on, arguments, nullptr);
}

CUresult device_work::stamp(block const& b, CUstream on, unsigned nanoseconds) {
  return launch(stamp_, b, on, nanoseconds);
}

CUresult device_work::look(block const& b, CUstream on, unsigned nanoseconds) {
  return launch(look_, b, on, nanoseconds);
}

void device_work::took(block const&, CUstream) {}
void device_work::gives(block const&, CUstream) {}
void device_work::gave_not(block const&) {}

void device_work::settled(char const*) {}

unsigned long long device_work::waits() {
  return 0;
}

unsigned long long device_work::wrong() {
  return all;
}
void device_work::describe_wrong() {}

}  // namespace random_program
