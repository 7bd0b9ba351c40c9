// Not a program: a preload library that is wrong on purpose. It caches cudaFree'd blocks by size and hands
// them out at once, whatever still uses them. The tests load it under `reuse` and `reuse_hazard` to prove
// that these can fail. Works only with shared libcudart. Never shipped, never linked to anything of gpumem.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <map>
#include <mutex>

namespace {

std::mutex guard;
std::map<void*, std::size_t>& sizes = *new std::map<void*, std::size_t>;
std::multimap<std::size_t, void*>& cached = *new std::multimap<std::size_t, void*>;

}  // namespace

extern "C" __attribute__((visibility("default"))) cudaError_t cudaMalloc(void** block, std::size_t bytes) {
  static const auto real =
      reinterpret_cast<cudaError_t (*)(void**, std::size_t)>(dlsym(RTLD_NEXT, "cudaMalloc"));
  const std::lock_guard lock(guard);
  const auto found = cached.find(bytes);
  if (found != cached.end()) {
    *block = found->second;
    cached.erase(found);
    return cudaSuccess;
  }
  const cudaError_t code = real(block, bytes);
  if (code == cudaSuccess) sizes[*block] = bytes;
  return code;
}

extern "C" __attribute__((visibility("default"))) cudaError_t cudaFree(void* block) {
  static const auto real = reinterpret_cast<cudaError_t (*)(void*)>(dlsym(RTLD_NEXT, "cudaFree"));
  const std::lock_guard lock(guard);
  const auto found = sizes.find(block);
  if (found == sizes.end()) return real(block);
  cached.emplace(found->second, block);
  return cudaSuccess;
}
