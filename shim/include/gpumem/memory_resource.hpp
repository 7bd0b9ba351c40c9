/* Chains of gpumem as memory resources of cuda::mr, for CCCL 3.0 (CUDA 13.0) and later: rmm::device_buffer,
 * rmm::device_uvector, thrust through rmm::exec_policy, cuda::buffer. C++17. Nothing is linked but the CUDA
 * runtime: without the library, or where no chain serves, CUDA does (cudaMallocAsync). No type of CCCL's goes
 * into the library, so one library serves programs of all versions. Any thread; as gpumem.h. */
#ifndef GPUMEM_MEMORY_RESOURCE_HPP
#define GPUMEM_MEMORY_RESOURCE_HPP

#include <cuda/std/__cccl/version.h>
#include <gpumem/gpumem.h>

#if CCCL_VERSION < 3000000
#error "gpumem/memory_resource.hpp needs CCCL 3.0 or later, as CUDA 13.0 has it"
#endif
#if CCCL_VERSION < 3002000 && !defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
#error "CCCL before 3.2 wants -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE for cuda::mr"
#endif

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cuda/memory_resource>
#include <cuda/stream_ref>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>

namespace gpumem {

/* The device, or what the chain may hold, has no room. */
class out_of_memory : public std::bad_alloc {
 public:
  char const* what() const noexcept override { return "gpumem: out of device memory"; }
};

/* One chain: that of the [[rule]]s with this name, or without a name what cudaMalloc gets. A value: it owns
 * nothing, and two of one name are equal. A name that the configuration lacks is served as without a name;
 * the library says so once. */
class memory_resource {
 public:
  static constexpr std::size_t default_alignment = 256;

  memory_resource() noexcept = default;
  explicit memory_resource(std::string_view chain) : chain_(kept(chain)) {}

  /* Null: it has none. */
  char const* chain() const noexcept { return chain_; }

  void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment = default_alignment) {
    cudaStream_t const on = named(stream.get());
    void* block = nullptr;
    auto const ask = [&](char const* chain) {
      return gpumem_allocate != nullptr ? gpumem_allocate(chain, bytes, alignment, on, &block)
                                        : int(GPUMEM_NOT_LOADED);
    };
    if (serves(ask)) return block;
    cudaError_t const code = cudaMallocAsync(&block, bytes, on);
    return checked(code, block, alignment, [&] { cudaFreeAsync(block, on); });
  }
  void deallocate(cuda::stream_ref stream, void* block, std::size_t,
                  std::size_t = default_alignment) noexcept {
    cudaStream_t const on = named(stream.get());
    if (gpumem_release == nullptr || is_cudas(gpumem_release(block, on))) cudaFreeAsync(block, on);
  }
  void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment) {
    void* block = nullptr;
    auto const ask = [&](char const* chain) {
      return gpumem_allocate_sync != nullptr ? gpumem_allocate_sync(chain, bytes, alignment, &block)
                                             : int(GPUMEM_NOT_LOADED);
    };
    if (serves(ask)) return block;
    cudaError_t const code = cudaMalloc(&block, bytes);
    return checked(code, block, alignment, [&] { cudaFree(block); });
  }
  void deallocate_sync(void* block, std::size_t, std::size_t = default_alignment) noexcept {
    if (gpumem_release_sync == nullptr || is_cudas(gpumem_release_sync(block))) cudaFree(block);
  }
#if CCCL_VERSION < 3001000 /* the names of CUDA 13.0 */
  void* allocate_async(std::size_t bytes, std::size_t alignment, cuda::stream_ref stream) {
    return allocate(stream, bytes, alignment);
  }
  void* allocate_async(std::size_t bytes, cuda::stream_ref stream) {
    return allocate(stream, bytes);
  }
  void deallocate_async(void* block, std::size_t bytes, std::size_t alignment,
                        cuda::stream_ref stream) noexcept {
    deallocate(stream, block, bytes, alignment);
  }
  void deallocate_async(void* block, std::size_t bytes, cuda::stream_ref stream) noexcept {
    deallocate(stream, block, bytes);
  }
  void* allocate(std::size_t bytes, std::size_t alignment = default_alignment) {
    return allocate_sync(bytes, alignment);
  }
  void deallocate(void* block, std::size_t bytes, std::size_t alignment = default_alignment) noexcept {
    deallocate_sync(block, bytes, alignment);
  }
#endif

  friend bool operator==(memory_resource const& one, memory_resource const& other) noexcept {
    return one.name() == other.name();
  }
  friend bool operator!=(memory_resource const& one, memory_resource const& other) noexcept {
    return !(one == other);
  }
  friend constexpr void get_property(memory_resource const&, cuda::mr::device_accessible) noexcept {}
#if CCCL_VERSION >= 3002000
  using default_queries = cuda::mr::properties_list<cuda::mr::device_accessible>;
#endif

 private:
  std::string_view name() const noexcept {
    return chain_ != nullptr ? chain_ : "";
  }

  /* Kept for good: a resource may be used while static objects are destroyed. */
  static char const* kept(std::string_view name) {
    if (name.empty()) return nullptr;
    static auto& names = *new std::set<std::string, std::less<>>;
    static auto& own = *new std::mutex;
    std::lock_guard<std::mutex> const held(own);
    auto found = names.find(name);
    if (found == names.end()) found = names.emplace(name).first;
    return found->c_str();
  }

  /* What stream 0 means where the program was compiled. */
  static cudaStream_t named(cudaStream_t stream) noexcept {
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
    return stream == nullptr ? cudaStreamPerThread : stream;
#else
    return stream;
#endif
  }

  static bool is_cudas(int code) noexcept {
    return code == GPUMEM_NOT_SERVED || code == GPUMEM_NOT_STARTED || code == GPUMEM_NO_CONTEXT;
  }

  /* True: a chain has answered. False: CUDA must. */
  template <typename Ask>
  bool serves(Ask const& ask) const {
    int code = ask(chain_);
    if ((code == GPUMEM_NOT_STARTED || code == GPUMEM_NO_CONTEXT) && runtime_sets_itself_up())
      code = ask(chain_);
    if (code == GPUMEM_NO_CHAIN) code = ask(nullptr);
    if (code == GPUMEM_OUT_OF_MEMORY) throw out_of_memory();
    if (code == GPUMEM_INVALID) throw std::bad_alloc(); /* an alignment that nobody has */
    return code == GPUMEM_OK;
  }
  /* As the first call of a program does that allocates. */
  static bool runtime_sets_itself_up() noexcept {
    int device = 0;
    return cudaGetDevice(&device) == cudaSuccess && cudaSetDevice(device) == cudaSuccess;
  }

  template <typename Free>
  static void* checked(cudaError_t code, void* block, std::size_t alignment, Free const& give_back) {
    if (code != cudaSuccess) {
      cudaGetLastError(); /* it is told by the exception */
      if (code == cudaErrorMemoryAllocation) throw out_of_memory();
      throw std::bad_alloc();
    }
    if (alignment == 0 || reinterpret_cast<std::uintptr_t>(block) % alignment == 0) return block;
    give_back();
    throw std::bad_alloc();
  }

  char const* chain_ = nullptr;
};

#if CCCL_VERSION >= 3001000
static_assert(cuda::mr::resource_with<memory_resource, cuda::mr::device_accessible>,
              "a resource of cuda::mr in stream order");
#else
static_assert(cuda::mr::async_resource_with<memory_resource, cuda::mr::device_accessible>,
              "a resource of cuda::mr in stream order");
#endif

}  // namespace gpumem

#endif
