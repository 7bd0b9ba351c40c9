// Memory of several libraries, of known sizes: library_holders FILE_A FILE_B [again]. A takes 96 MiB, of
// which B frees a third; B takes 40 MiB and an array of 8 MiB, the program itself 5 MiB; at the most, all of
// it is there. `again`: A is unloaded and B loaded in its place, 100 times, each taking 1 MiB that stays.
// `full`: B takes 64 MiB, then A as much again and again until it is refused. The report is to say so. One
// thread; the driver alone.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

void require(bool good, const char* what) {
  if (good) return;
  std::printf("failed: %s\n", what);
  std::exit(1);
}

struct library {
  void* handle;
  CUdeviceptr (*take)(std::size_t);
  CUarray (*take_array)(std::size_t, std::size_t);
  CUresult (*give_back)(CUdeviceptr);

  explicit library(const char* file) : handle(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    require(handle != nullptr, file);
    take = reinterpret_cast<decltype(take)>(dlsym(handle, "take"));
    take_array = reinterpret_cast<decltype(take_array)>(dlsym(handle, "take_array"));
    give_back = reinterpret_cast<decltype(give_back)>(dlsym(handle, "give_back"));
  }
};

void in_turns(const char* a, const char* b) {
  for (int round = 0; round < 200; ++round) {
    const library one(round % 2 == 0 ? a : b);
    require(one.take(mib) != 0, "a block of a library that is unloaded");
    dlclose(one.handle);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  CUdevice device = 0;
  CUcontext context = nullptr;
  require(cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS, "a device");
  require(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS, "a context");
  require(cuCtxSetCurrent(context) == CUDA_SUCCESS, "a context");
  if (argc > 3 && std::strcmp(argv[3], "full") == 0) {
    const library a(argv[1]), b(argv[2]);
    require(b.take(64 * mib) != 0, "a block of B");
    int taken = 0;
    while (a.take(64 * mib) != 0) ++taken;
    require(taken > 0, "blocks of A");
  } else if (argc > 3) {
    in_turns(argv[1], argv[2]);
  } else {
    const library a(argv[1]), b(argv[2]);
    std::vector<CUdeviceptr> of_a;
    for (int i = 0; i < 24; ++i) of_a.push_back(a.take(4 * mib));
    for (int i = 0; i < 40; ++i) require(b.take(mib) != 0, "a block of B");
    require(b.take_array(8 * 1024, 1024) != nullptr, "an array");
    CUdeviceptr own = 0;
    require(cuMemAlloc(&own, 5 * mib) == CUDA_SUCCESS, "a block of the program");
    for (int i = 0; i < 8; ++i) require(b.give_back(of_a[i]) == CUDA_SUCCESS, "a free by another library");
  }
  std::printf("done\n");
}
