// A preload library that writes down what a program asks of device memory: one line an allocation or free,
// with its stream. Loaded alone, never with gpumem: the trace is then replayed over any chain. GPUMEM_TRACE
// names the file (%p: pid). Called from any thread of the traced program; one lock, a buffer that is written
// at 64 KiB and at exit. Must never change what the program sees: the driver's result is passed on as it
// came.
//   a NUMBER BYTES [STREAM]    allocation; with a stream: stream-ordered.      f NUMBER [STREAM]    its free
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

using dlsym_function = void* (*)(void*, const char*);

struct recorder {
  std::mutex guard;
  std::unordered_map<CUdeviceptr, unsigned long long> live;
  std::unordered_map<CUstream, unsigned> streams;
  unsigned long long made = 0;
  std::string text = "# gpumem trace 1\n";
  int file = -1;

  void write_out() {
    if (file < 0) file = open_file();
    for (std::size_t at = 0; file >= 0 && at < text.size();) {
      const ssize_t done = write(file, text.data() + at, text.size() - at);
      if (done <= 0) break;
      at += static_cast<std::size_t>(done);
    }
    text.clear();
  }

 private:
  static int open_file() {
    const char* pattern = std::getenv("GPUMEM_TRACE");
    std::string path = pattern != nullptr ? pattern : "gpumem.%p.trace";
    if (const std::size_t at = path.find("%p"); at != std::string::npos)
      path.replace(at, 2, std::to_string(getpid()));
    return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  }
};

recorder& the_recorder() {
  static auto* const one = [] {
    std::atexit([] {
      const std::lock_guard lock(the_recorder().guard);
      the_recorder().write_out();
    });
    return new recorder;  // never destroyed: static destructors of the program free memory after ours ran
  }();
  return *one;
}

void stream_text(recorder& to, CUstream stream, bool ordered) {
  if (ordered) {
    const auto next = static_cast<unsigned>(to.streams.size());
    to.text += ' ' + std::to_string(to.streams.try_emplace(stream, next).first->second);
  }
  to.text += '\n';
  if (to.text.size() > 65536) to.write_out();
}

void note_allocation(CUdeviceptr block, std::size_t bytes, CUstream stream, bool ordered) {
  recorder& to = the_recorder();
  const std::lock_guard lock(to.guard);
  to.live[block] = to.made;
  to.text += "a " + std::to_string(to.made++) + ' ' + std::to_string(bytes);
  stream_text(to, stream, ordered);
}

// Before the driver's free: afterwards another thread may already have the address.
void note_free(CUdeviceptr block, CUstream stream, bool ordered) {
  recorder& to = the_recorder();
  const std::lock_guard lock(to.guard);
  const auto found = to.live.find(block);
  if (found == to.live.end()) return;
  to.text += "f " + std::to_string(found->second);
  to.live.erase(found);
  stream_text(to, stream, ordered);
}

dlsym_function real_dlsym() {
  static const auto real = [] {
    void* found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (found == nullptr) found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (found == nullptr) found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
    return reinterpret_cast<dlsym_function>(found);
  }();
  return real;
}

template <typename function>
function driver_function(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<function>(real_dlsym()(driver, name));
}

}  // namespace

EXPORTED CUresult cuMemAlloc_v2(CUdeviceptr* block, std::size_t bytes) {
  static const auto real = driver_function<decltype(&cuMemAlloc_v2)>("cuMemAlloc_v2");
  const CUresult code = real(block, bytes);
  if (code == CUDA_SUCCESS) note_allocation(*block, bytes, nullptr, false);
  return code;
}
EXPORTED CUresult cuMemFree_v2(CUdeviceptr block) {
  static const auto real = driver_function<decltype(&cuMemFree_v2)>("cuMemFree_v2");
  note_free(block, nullptr, false);
  return real(block);
}
#define STREAM_ORDERED(suffix)                                                                               \
  EXPORTED CUresult cuMemAllocAsync##suffix(CUdeviceptr* block, std::size_t bytes, CUstream stream) {        \
    static const auto real =                                                                                 \
        driver_function<CUresult (*)(CUdeviceptr*, std::size_t, CUstream)>("cuMemAllocAsync" #suffix);       \
    const CUresult code = real(block, bytes, stream);                                                        \
    if (code == CUDA_SUCCESS && *block != 0) note_allocation(*block, bytes, stream, true);                   \
    return code;                                                                                             \
  }                                                                                                          \
  EXPORTED CUresult cuMemFreeAsync##suffix(CUdeviceptr block, CUstream stream) {                             \
    static const auto real = driver_function<CUresult (*)(CUdeviceptr, CUstream)>("cuMemFreeAsync" #suffix); \
    note_free(block, stream, true);                                                                          \
    return real(block, stream);                                                                              \
  }
STREAM_ORDERED()
STREAM_ORDERED(_ptsz)

// The same rule as gpumem's: a result is exchanged only if it is the driver's function of that name and
// version.
static void exchange(void** result);

// The form of before CUDA 12, whose name the header turns into the newer one.
#undef cuGetProcAddress
EXPORTED CUresult cuGetProcAddress(const char* name, void** result, int version, cuuint64_t flags) {
  static const auto real =
      driver_function<CUresult (*)(const char*, void**, int, cuuint64_t)>("cuGetProcAddress");
  const CUresult code = real(name, result, version, flags);
  if (code == CUDA_SUCCESS) exchange(result);
  return code;
}
EXPORTED CUresult cuGetProcAddress_v2(const char* name, void** result, int version, cuuint64_t flags,
                                      CUdriverProcAddressQueryResult* status) {
  static const auto real = driver_function<decltype(&cuGetProcAddress_v2)>("cuGetProcAddress_v2");
  const CUresult code = real(name, result, version, flags, status);
  if (code == CUDA_SUCCESS) exchange(result);
  return code;
}

namespace {

struct replacement {
  const char* name;
  void* ours;
};
const replacement replaced[] = {
    {"cuGetProcAddress", reinterpret_cast<void*>(cuGetProcAddress)},
    {"cuGetProcAddress_v2", reinterpret_cast<void*>(cuGetProcAddress_v2)},
    {"cuMemAlloc_v2", reinterpret_cast<void*>(cuMemAlloc_v2)},
    {"cuMemFree_v2", reinterpret_cast<void*>(cuMemFree_v2)},
    {"cuMemAllocAsync", reinterpret_cast<void*>(cuMemAllocAsync)},
    {"cuMemFreeAsync", reinterpret_cast<void*>(cuMemFreeAsync)},
    {"cuMemAllocAsync_ptsz", reinterpret_cast<void*>(cuMemAllocAsync_ptsz)},
    {"cuMemFreeAsync_ptsz", reinterpret_cast<void*>(cuMemFreeAsync_ptsz)},
};

}  // namespace

static void exchange(void** result) {
  if (*result == nullptr) return;
  for (const replacement& each : replaced)
    if (*result == driver_function<void*>(each.name)) *result = each.ours;
}

// Names of other libraries go on by a tail jump, so that RTLD_NEXT and RTLD_DEFAULT see the true caller.
EXPORTED void* dlsym(void* handle, const char* name) noexcept {
  if (name[0] != 'c' || name[1] != 'u') return real_dlsym()(handle, name);
  void* found = real_dlsym()(handle, name);
  exchange(&found);
  return found;
}
