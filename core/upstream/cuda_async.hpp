// The upstream `cuda_async`: the driver's stream-ordered pool. Directly below the program it uses the
// program's own stream. Below a pool it uses a stream that carries nothing else, so that waiting for it
// costs little. Called on slow paths from any thread. Cannot be exported by legacy IPC: `gpumem check` says
// so. Its pool is open to the devices that the program gave peer access. Over the device's default managed
// pool it is `cuda_async_managed` (RMM's cuda_async_managed_memory_resource).
#pragma once

#include <atomic>

#include "core/base/threads/mutex.hpp"
#include "core/resource/resource.hpp"
#include "core/resource/source.hpp"
#include "core/upstream/refused_frees.hpp"

namespace gpumem::upstream {

class cuda_async final : public resource::source {
 public:
  struct options {
    std::uint64_t initial_pool_size = 0;
    std::uint64_t release_threshold = ~std::uint64_t{0};
    bool own_pool = true;  // false: the device's default pool
    bool managed = false;  // true: the device's default pool of managed memory
  };
  // Throws driver::allocation_failed where the driver or the device has no managed pool that was asked for.
  cuda_async(resource::chain_context const& home, std::size_t node, options const& o);

  resource::extent reserve(resource::allocation_request const& request) override;
  void release(resource::extent const& memory, resource::release_order const& order) noexcept override;
  void lost(resource::extent const& memory) noexcept override;
  void forget() noexcept override;
  void begin_again() noexcept override;
  void peers_changed() noexcept override;
  std::uint64_t trim(resource::give_back_scope scope) noexcept override;
  // Segments of all these that lie in the device's default pool.
  static std::uint64_t in_default_pool(int device) noexcept;

 private:
  char const* name() const noexcept { return options_.managed ? "cuda_async_managed" : "cuda_async"; }
  resource::lies where() const noexcept {
    return options_.managed ? resource::lies::anywhere : resource::lies::on_device;
  }
  CUresult find_pool() noexcept;  // sets pool_
  void end_pool() noexcept;       // of our own
  // Counts bytes taken from, or given back to, the device's default pool; none of another one.
  void count(std::uint64_t bytes, bool taken) const noexcept;
  // With a pool.
  void grant_access() noexcept GPUMEM_REQUIRES(mutex_);
  void leave_behind(resource::extent const& memory) noexcept;
  void free_left_behind() noexcept;
  void open();  // pool and stream, at first use
  // What comes next on stream_ runs after all work of the context; false: not to be had, and nothing waited
  // for where it may not (`may_wait`).
  bool order_after_all(bool may_wait) noexcept;
  // Gives memory back in the order of this stream; false: the driver refused.
  bool give_away(resource::extent const& memory, CUstream order) noexcept;
  // Without a stream, and where the driver refuses, the memory is kept; free_what_waits() frees it when
  // nothing captures.
  void free_or_keep(resource::extent const& memory, CUstream order) noexcept;
  void free_what_waits(bool may_wait = true) noexcept;
  // cuMemAllocFromPoolAsync on the stream of the request, or stream_. Throws driver::allocation_failed.
  void allocate(CUdeviceptr* address, std::uint64_t bytes, resource::allocation_request const& request);
  // What was got in the order of stream_. Throws driver::allocation_failed, without it.
  void wait_until_anyone_may_use(resource::extent const& memory);

  resource::chain_context const& home_;
  std::size_t const node_;
  options const options_;
  base::mutex mutex_;
  refused_frees waiting_;                                // and those that a capture kept from being ordered
  std::uint64_t granted_ GPUMEM_GUARDED_BY(mutex_) = 0;  // of chain_context::peers, to this pool
  // Of a context: made and dropped under the mutex, read without it. Whoever uses them is inside the context,
  // which does not end meanwhile.
  std::atomic<CUmemoryPool> pool_{nullptr};
  std::atomic<CUstream> stream_{nullptr};
};

}  // namespace gpumem::upstream
