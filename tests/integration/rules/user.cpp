// A library that uses CUDA for itself, as NCCL or cuDNN do: built under several names, with a shared and with
// a static runtime. Its constructor allocates too when TAKE_AT_LOAD is set, on the thread and under the locks
// of the dlopen that loads it.
#include <cstddef>
#include <cstdlib>

extern "C" {
int cudaMalloc(void** result, std::size_t bytes);
int cudaFree(void* address);
int cudaMallocManaged(void** result, std::size_t bytes, unsigned int flags);

__attribute__((visibility("default"))) void* take(std::size_t bytes) {
  void* address = nullptr;
  return cudaMalloc(&address, bytes) == 0 ? address : nullptr;
}
__attribute__((visibility("default"))) void* take_managed(std::size_t bytes) {
  void* address = nullptr;
  return cudaMallocManaged(&address, bytes, 1) == 0 ? address : nullptr;
}
__attribute__((visibility("default"))) int give(void* address) {
  return cudaFree(address);
}
}

namespace {
__attribute__((constructor)) void at_load() {
  char const* const bytes = std::getenv("TAKE_AT_LOAD");
  if (bytes != nullptr) give(take(std::strtoul(bytes, nullptr, 10)));
}
}  // namespace
