// Libraries that keep what their users gave back: how one is known, what makes it let go, and what switches
// it off. Read by the remedy of a refusal and by `gpumem check --recommend`. Constants.
#pragma once

#include <array>
#include <string_view>

namespace gpumem::report {

struct known_cache {
  std::string_view part;  // of the library's path
  std::string_view name, release, without;
};
inline constexpr std::array<known_cache, 5> known_caches{
    {{"libc10_cuda.so", "PyTorch's cache", "torch.cuda.empty_cache() frees what is idle in it",
      "gpumem run --uncached"},
     {"/cupy_backends/", "CuPy's pool",
      "cupy.get_default_memory_pool().free_all_blocks() frees what is idle in it",
      "cupy.cuda.set_allocator(None)"},
     {"xla_cuda", "XLA's pool", "XLA_PYTHON_CLIENT_MEM_FRACTION makes it smaller", "gpumem run --uncached"},
     {"/tensorflow/", "TensorFlow's pool", "TF_FORCE_GPU_ALLOW_GROWTH=true makes it take what it needs",
      "gpumem run --uncached"},
     {"librmm.so", "an RMM resource", "a smaller maximum pool size bounds it",
      "rmm.mr.CudaMemoryResource()"}}};

}  // namespace gpumem::report
