// gpumem/memory_resource.hpp as programs of each CCCL version use it: by its functions, and as what cuda::mr
// makes of it. Compiled once for each version by tests/integration/examples/interfaces.py, not by CMake. One
// thread; the same lines come with and without the library.
#include <cstdio>
#include <gpumem/memory_resource.hpp>

namespace {

int wrong = 0;

void must(bool holds, char const* what) {
  if (holds) return;
  std::printf("WRONG: %s\n", what);
  ++wrong;
}

constexpr std::size_t mib = std::size_t{1} << 20;

void through_cuda_mr(gpumem::memory_resource chain, cuda::stream_ref stream) {
#if CCCL_VERSION >= 3002000
  cuda::mr::any_resource<cuda::mr::device_accessible> any{chain};
  cuda::mr::any_resource<cuda::mr::device_accessible> copy = any;
  must(copy == any, "a copy of any_resource is equal");
  must(!(any == cuda::mr::any_resource<cuda::mr::device_accessible>{gpumem::memory_resource{"another"}}),
       "any_resource of others is not");
#elif CCCL_VERSION >= 3001000
  cuda::mr::resource_ref<cuda::mr::device_accessible> any{chain};
#endif
#if CCCL_VERSION >= 3001000
  void* block = any.allocate(stream, mib, 256);
  must(block != nullptr && cudaMemsetAsync(block, 1, mib, stream.get()) == cudaSuccess,
       "a block through cuda::mr");
  any.deallocate(stream, block, mib, 256);
  block = any.allocate_sync(mib, 256);
  must(block != nullptr, "a block for all streams");
  any.deallocate_sync(block, mib, 256);
#else
  cuda::mr::async_resource_ref<cuda::mr::device_accessible> any{chain};
  void* block = any.allocate_async(mib, 256, stream);
  must(block != nullptr && cudaMemsetAsync(block, 1, mib, stream.get()) == cudaSuccess,
       "a block through cuda::mr");
  any.deallocate_async(block, mib, 256, stream);
  block = any.allocate(mib, 256);
  must(block != nullptr, "a block for all streams");
  any.deallocate(block, mib, 256);
#endif
}

}  // namespace

int main() {
  std::printf("CCCL %d.%d\n", CCCL_VERSION / 1000000, CCCL_VERSION / 1000 % 1000);
  gpumem::memory_resource scratch("scratch");
  // The first call of the process: nobody has made a context yet.
  void* block = scratch.allocate_sync(mib);
  must(block != nullptr && cudaMemset(block, 1, mib) == cudaSuccess, "the first block");
  scratch.deallocate_sync(block, mib);

  gpumem::memory_resource const same(std::string("scra") + "tch"), other("other"), unnamed;
  must(scratch == same && scratch.chain() == same.chain(), "equal by the name");
  must(scratch != other && scratch != unnamed && other != unnamed, "others are not");
  must(unnamed == gpumem::memory_resource("") && unnamed.chain() == nullptr, "no name");

  cudaStream_t handle = nullptr;
  must(cudaStreamCreate(&handle) == cudaSuccess, "cudaStreamCreate");
  cuda::stream_ref const stream{handle};
  through_cuda_mr(scratch, stream);
  through_cuda_mr(unnamed, stream);
  through_cuda_mr(other, stream);
  cudaStream_t const none = nullptr;
  through_cuda_mr(scratch, cuda::stream_ref{none});

  // Freed by what did not get it.
  block = scratch.allocate(stream, mib);
  must(cudaFreeAsync(block, handle) == cudaSuccess, "cudaFreeAsync of a chain's");
  block = scratch.allocate_sync(mib);
  must(cudaFree(block) == cudaSuccess, "cudaFree of a chain's");
  must(cudaMallocAsync(&block, mib, handle) == cudaSuccess, "cudaMallocAsync");
  scratch.deallocate(stream, block, mib);
  must(cudaMalloc(&block, mib) == cudaSuccess, "cudaMalloc");
  scratch.deallocate_sync(block, mib);

  for (std::size_t alignment : {std::size_t{4096}, 2 * mib}) {
    try {
      block = scratch.allocate(stream, 1000, alignment);
      must(reinterpret_cast<std::uintptr_t>(block) % alignment == 0, "aligned");
      scratch.deallocate(stream, block, 1000, alignment);
    } catch (std::bad_alloc const&) {
      must(!gpumem_is_loaded(), "an alignment that CUDA itself does not promise");
    }
  }
  try {
    (void)scratch.allocate(stream, std::size_t{1} << 50);
    must(false, "a pebibyte");
  } catch (gpumem::out_of_memory const& refused) {
    std::printf("%s\n", refused.what());
  }
  must(cudaPeekAtLastError() == cudaSuccess, "no error is left behind");
  must(cudaStreamSynchronize(handle) == cudaSuccess && cudaStreamDestroy(handle) == cudaSuccess,
       "the stream");
  std::printf("%d wrong\n", wrong);
  return wrong;
}
