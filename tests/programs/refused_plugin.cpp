// A plugin that is refused memory and asks its runtime what the last error was: another runtime would know of
// none. Nothing in it keeps it loaded when it is closed. Opened by plugin_host; one thread.
#include <cuda_runtime_api.h>

#include <cstdio>

extern "C" __attribute__((visibility("default"))) int plugin_work(int) {
  void* block = nullptr;
  const int code = cudaMallocManaged(&block, std::size_t{1} << 50, cudaMemAttachGlobal);
  std::printf("refused with %d, the last error is %d\n", code, cudaGetLastError());
  return code;
}
