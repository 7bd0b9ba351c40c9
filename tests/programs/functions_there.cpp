// Which of the driver's functions are there, and which symbol cuGetProcAddress means by a name in each
// version of CUDA, before and after the driver is initialised. The names are those of
// simulated_cuda/functions.def, and some that no driver has. Prints no address: run plain and preloaded, on
// drivers that lack functions as well, where what is absent must stay so. One thread.
#include <cuda.h>
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "tests/programs/support.hpp"

namespace {

struct function {
  const char* name;
  const char* symbols[2];  // the second: for per-thread default streams
};
constexpr function functions[] = {
#define SIMULATED_FUNCTION(name, symbol, since) {#name, {#symbol, nullptr}},
#define SIMULATED_STREAM_FUNCTION(name, symbol, variant, since) {#name, {#symbol, #variant}},
#include "tests/simulated_cuda/functions.def"
    {"cuMemFree", {"cuMemFree", nullptr}},  // of before 3.2
    {"cuNoSuchFunction", {"cuNoSuchFunction", nullptr}},
    {"cuMemAllocAsync_ptsz", {"cuMemAllocAsync_ptds", nullptr}},
};
constexpr int versions[] = {2000, 3020, 11000, 11080, 12000, 12040, 13000};
constexpr unsigned long long per_thread = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

template <typename Function>
void find(Function& out, void* library, const char* name) {
  void* const found = dlsym(library, name);
  std::memcpy(&out, &found, sizeof out);
}

std::string symbol_of(void* library, void* address) {
  if (address == nullptr) return "none";
  for (const function& each : functions) {
    for (const char* symbol : each.symbols) {
      if (symbol != nullptr && dlsym(library, symbol) == address) return symbol;
    }
  }
  return "unknown";
}

void show_all(void* library) {
  CUresult (*four)(const char*, void**, int, cuuint64_t) = nullptr;
  CUresult (*five)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*) = nullptr;
  find(four, library, "cuGetProcAddress");
  find(five, library, "cuGetProcAddress_v2");
  std::printf("look-up by the driver: %d %d\n", four != nullptr, five != nullptr);
  for (const function& each : functions) {
    for (const char* symbol : each.symbols) {
      if (symbol != nullptr) std::printf("%s %d\n", symbol, dlsym(library, symbol) != nullptr);
    }
    for (const int version : versions) {
      for (const unsigned long long flags : {0ULL, 1ULL, per_thread}) {
        void* found = nullptr;
        CUdriverProcAddressQueryResult why{};
        if (four != nullptr) {
          const int code = four(each.name, &found, version, flags);
          std::printf("%s %d %llu: %d %s\n", each.name, version, flags, code,
                      symbol_of(library, found).c_str());
        }
        found = nullptr;
        if (five == nullptr) continue;
        const int code = five(each.name, &found, version, flags, &why);
        std::printf("%s %d %llu: %d %d %s\n", each.name, version, flags, code, why,
                    symbol_of(library, found).c_str());
      }
    }
  }
}

}  // namespace

int main() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  REQUIRE_CODE(library == nullptr, false);
  show_all(library);
  CUresult (*init)(unsigned int) = nullptr;
  CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
  CUresult (*set_current)(CUcontext) = nullptr;
  CUresult (*allocate)(CUdeviceptr*, std::size_t) = nullptr;
  find(init, library, "cuInit");
  find(retain, library, "cuDevicePrimaryCtxRetain");
  find(set_current, library, "cuCtxSetCurrent");
  find(allocate, library, "cuMemAlloc_v2");
  CUcontext context = nullptr;
  CUdeviceptr block = 0;
  REQUIRE(init(0));
  REQUIRE(retain(&context, 0));
  REQUIRE(set_current(context));
  REQUIRE(allocate(&block, 1000));
  show_all(library);
}
