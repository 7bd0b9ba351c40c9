// What a workload allocates from, chosen by name on the command line: the runtime's two pairs (plain or under
// gpumem, which the program cannot tell), cub's caching allocator and RMM's resources. The same virtual call
// stands before each, so that no side is favoured. allocate throws std::bad_alloc; all is thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

namespace bench {

class allocator {
 public:
  virtual ~allocator() = default;
  virtual void* allocate(std::size_t bytes, cudaStream_t stream) = 0;
  virtual void free(void* block, std::size_t bytes, cudaStream_t stream) = 0;
  // False where memory may be freed without a word about streams: cudaFree.
  virtual bool stream_ordered() const { return true; }
};

struct held {  // by a workload
  void* block = nullptr;
  std::size_t bytes = 0;
};

// "malloc", "async", or a peer. Ends the program with a list of the names for an unknown one.
std::unique_ptr<allocator> make_allocator(const std::string& name);

// "cub", "rmm-pool", "rmm-arena", "rmm-binning", "rmm-cuda_async"; null for what this program was built
// without.
std::unique_ptr<allocator> make_peer(const std::string& name);

}  // namespace bench
